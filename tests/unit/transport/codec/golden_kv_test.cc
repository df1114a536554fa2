// Hashes, ZMQ messages and replay frames of the real releases.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/token_hash.h"

#include <charconv>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

std::uint64_t Number(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// null when the vector has no such key.
Json Maybe(const Json& vector, const char* key) {
  return vector.contains(key) ? vector[key] : Json();
}

std::string TextOf(const Json& value) {
  return value.is_null() ? "" : value.get<std::string>();
}

std::vector<std::uint64_t> MediaOf(const Json& vector, std::size_t block) {
  const Json media = Maybe(vector, "mm_hashes");
  return media.is_null() || media[block].is_null() ? std::vector<std::uint64_t>{}
                                                   : media[block].get<std::vector<std::uint64_t>>();
}

/// A list, or "range(first,end)".
std::vector<std::uint32_t> TokensOf(const Json& value) {
  if (!value.is_string()) {
    return value.get<std::vector<std::uint32_t>>();
  }
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  EXPECT_EQ(std::sscanf(value.get<std::string>().c_str(), "range(%u,%u)", &first, &end), 2);
  std::vector<std::uint32_t> tokens(end - first);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(GoldenHashes, AllVectorsAgree) {
  const Json vectors = Load("events/hashes.json");
  ASSERT_EQ(vectors.size(), 17U);
  for (const Json& vector : vectors) {
    const std::vector<std::uint32_t> tokens = TokensOf(vector["tokens"]);
    const TokenWindows windows(tokens, vector["block_size"], Maybe(vector, "is_eagle") == true);
    const std::uint64_t seed =
        TokenHashSeed(TextOf(vector["lora_name"]), TextOf(Maybe(vector, "cache_salt")));
    const Json sequence_hashes = Maybe(vector, "sequence_hash");
    ASSERT_EQ(windows.size(), vector["tokens_hash"].size()) << vector["note"];
    BlockHash parent{};
    for (std::size_t i = 0; i < windows.size(); ++i) {
      std::vector<std::uint64_t> media = MediaOf(vector, i);
      const TokensHash hash = HashWindow(windows[i], media, seed);
      EXPECT_EQ(Value(hash), Number(vector["tokens_hash"][i])) << vector["note"];
      parent = ChainBlockHash(i == 0 ? nullptr : &parent, hash);
      if (!sequence_hashes.is_null()) {
        EXPECT_EQ(Value(parent), Number(sequence_hashes[i])) << vector["note"];
      }
    }
  }
}

TEST(GoldenMockerZmq, MessagesOf16AreReadAndWrittenToTheSameBytes) {
  std::size_t messages = 0;
  for (const Json& vector : Load("events/mocker_zmq_1.6.1.json")) {
    const std::string payload = FromHex(vector["input_hex"]);
    const auto batch = DecodeKvBatch(payload);
    ASSERT_TRUE(batch.has_value()) << batch.error().message;
    EXPECT_EQ(batch->problems_total, 0U);
    ASSERT_TRUE(batch->dp_rank.has_value());
    EXPECT_EQ(EncodeKvBatch(batch->timestamp_s, batch->events, *batch->dp_rank), payload);
    ++messages;
  }
  EXPECT_GT(messages, 3U);
}

TEST(GoldenMockerZmq, MessagesOf13AreReadWithTheRemovalsThatItsOwnListenerLoses) {
  std::size_t removed = 0;
  std::size_t stored = 0;
  for (const Json& vector : Load("events/mocker_zmq_1.3.0.json")) {
    const auto batch = DecodeKvBatch(FromHex(vector["input_hex"]));
    ASSERT_TRUE(batch.has_value()) << batch.error().message;
    EXPECT_EQ(batch->problems_total, 0U);
    for (const EngineKvEvent& event : batch->events) {
      stored += std::holds_alternative<EngineKvStored>(event) ? 1U : 0U;
      if (const auto* removal = std::get_if<EngineKvRemoved>(&event)) {
        EXPECT_EQ(removal->scope.group_idx, 0U);
        EXPECT_FALSE(removal->scope.medium.has_value());
        ++removed;
      }
    }
  }
  EXPECT_GT(stored, 0U);
  EXPECT_GT(removed, 0U);
}

TEST(GoldenReplay, RepliesOfBothReleasesAreRead) {
  std::size_t replies = 0;
  std::size_t ends = 0;
  for (const Json& exchange : Load("events/zmq_replay.json")) {
    for (const Json& output : exchange["output_frames"]) {
      std::vector<std::string> frames;
      for (const Json& frame : output) {
        frames.push_back(frame == "<payload>" ? "payload" : FromHex(frame));
      }
      if (frames.size() < 3) {
        continue;  // what a REQ socket shows of it
      }
      const std::vector<std::string_view> views(frames.begin(), frames.end());
      const auto reply = ParseReplayReply(views);
      ASSERT_TRUE(reply.has_value()) << reply.error().message;
      EXPECT_EQ(reply->ended, frames.back().empty());
      EXPECT_EQ(reply->ended, reply->sequence == kReplayEndSequence);
      ++(reply->ended ? ends : replies);
    }
  }
  EXPECT_EQ(replies, 4U);
  EXPECT_EQ(ends, 3U);
}

}  // namespace
}  // namespace understudy::transport::golden
