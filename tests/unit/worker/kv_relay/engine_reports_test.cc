// What users met between engines and routers in public (spec/reports.md, U<number>): a payload as
// it came from the engine, and what routers are told. The sockets' part: tests/integration/zmq.
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/token_hash.h"
#include "worker/kv_relay/converter.h"
#include "worker/kv_relay/publisher.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;
using transport::RouterEvent;

constexpr std::uint32_t kBlockSize = 16;
constexpr std::uint64_t kHash = 13360216285664366642U;  // beyond 2^63

std::string Pack(const Json& value) {
  const auto bytes = Json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

Json Tokens(std::uint32_t blocks = 1) {
  std::vector<std::uint32_t> tokens(std::size_t{blocks} * kBlockSize);
  std::iota(tokens.begin(), tokens.end(), 1U);
  return tokens;
}

/// From the payload of an engine's message to the numbered events of its rank.
class EngineReports : public ::testing::Test {
 protected:
  EngineReports()
      : converter_(ConverterOptions()),
        publisher_({WorkerId{1001}, DpRank{0}, {}, true}, TimePoint{}) {}

  static KvEventConverter::Options ConverterOptions() {
    KvEventConverter::Options options;
    options.worker_id = WorkerId{1001};
    options.block_size = kBlockSize;
    options.rules = kKvConversion16;
    return options;
  }

  std::vector<RouterEvent> Hear(const std::string& payload) {
    const auto batch = transport::DecodeKvBatch(payload);
    EXPECT_TRUE(batch.has_value()) << batch.error().message;
    std::vector<RouterEvent> raw;
    std::vector<RouterEvent> told;
    if (batch) {
      converter_.Convert(*batch, raw);
      publisher_.Take(std::move(raw), TimePoint{}, 1U << 20, [&](const RouterEvent& event) {
        told.push_back(event);
      });
    }
    return told;
  }
  std::vector<RouterEvent> Hear(const Json& events) {
    return Hear(Pack(Json::array({1.0, events, 0})));
  }

  KvEventConverter converter_;
  RankPublisher publisher_;
};

std::vector<std::uint64_t> HashesOf(const RouterEvent& event) {
  std::vector<std::uint64_t> hashes;
  for (const auto& block : event.blocks) {
    hashes.push_back(Value(block.block_hash));
  }
  return hashes;
}

TEST_F(EngineReports, U1AHashBeyond63BitsIsTheSameSignedAndUnsigned) {
  const Json stored = Json::array({"BlockStored", {kHash}, nullptr, Tokens(), 16, nullptr});
  const std::string payload = Pack(Json::array({1.0, Json::array({stored}), 0}));
  ASSERT_NE(payload.find("\xcf\xb9\x69\x05\xed\x25\x69\xd0\x32"), std::string::npos);
  auto told = Hear(payload);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(HashesOf(told[0]), std::vector<std::uint64_t>{kHash});

  const auto as_signed = static_cast<std::int64_t>(kHash);
  ASSERT_EQ(as_signed, -5086527788045184974);
  told = Hear(Json::array({Json::array({"BlockRemoved", {as_signed}, "GPU"})}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, RouterEvent::Kind::kRemoved);
  EXPECT_EQ(HashesOf(told[0]), std::vector<std::uint64_t>{kHash});
}

TEST_F(EngineReports, U1ARemovalOfTwoElementsRemoves) {
  Hear(Json::array({Json::array({"BlockStored", {kHash}, nullptr, Tokens(), 16})}));
  const auto told = Hear(Json::array({Json::array({"BlockRemoved", {kHash}})}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(HashesOf(told[0]), std::vector<std::uint64_t>{kHash});
}

// Both releases lose the batch; ours takes the last 8 bytes, as vLLM does when told to send
// integers.
TEST_F(EngineReports, U2HashesOf32BytesNameTheirBlocksStably) {
  const auto bytes = [](std::uint8_t last) {
    std::vector<std::uint8_t> hash(32, 0xaa);
    hash.back() = last;
    return Json::binary(hash);
  };
  auto told = Hear(Json::array(
      {Json::array({"BlockStored", Json::array({bytes(1), bytes(2)}), nullptr, Tokens(2), 16})}));
  ASSERT_EQ(told.size(), 1U);
  const auto names = HashesOf(told[0]);
  EXPECT_EQ(names, (std::vector<std::uint64_t>{0xaaaaaaaaaaaaaa01, 0xaaaaaaaaaaaaaa02}));
  told = Hear(Json::array({Json::array({"BlockRemoved", Json::array({bytes(2)}), "GPU"})}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(HashesOf(told[0]), std::vector<std::uint64_t>{names[1]});
}

TEST_F(EngineReports, U3MapsAreReadInAnyOrderWithKeysNobodyKnows) {
  const Json stored = {{"type", "BlockStored"},
                       {"block_hashes", {15760518052499183552U}},
                       {"parent_block_hash", nullptr},
                       {"token_ids", Tokens()},
                       {"block_size", 16},
                       {"lora_id", nullptr},
                       {"medium", "GPU"},
                       {"lora_name", nullptr},
                       {"extra_keys", Json::array({nullptr})},
                       {"group_idx", 0},
                       {"kv_cache_spec_kind", "full_attention"}};
  const auto told = Hear(Pack(Json::array({1789095808.8378847, Json::array({stored}), 0})));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(HashesOf(told[0]), std::vector<std::uint64_t>{15760518052499183552U});

  Json turned = Json::object();
  for (auto field = stored.rbegin(); field != stored.rend(); ++field) {
    turned[field.key()] = field.value();
  }
  turned["block_hashes"] = Json::array({7});
  turned["from_the_future"] = {{"a", 1}};
  const auto again = Hear(Json::array({turned}));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(HashesOf(again[0]), std::vector<std::uint64_t>{7});
  EXPECT_EQ(again[0].blocks[0].tokens_hash, told[0].blocks[0].tokens_hash);
}

TEST_F(EngineReports, U4AuxiliaryGroupsUseNoEventId) {
  const auto of_group = [](std::uint64_t hash, std::uint32_t group) {
    return Json{{"type", "BlockStored"},
                {"block_hashes", {hash}},
                {"parent_block_hash", nullptr},
                {"token_ids", Tokens()},
                {"block_size", 16},
                {"group_idx", group}};
  };
  EXPECT_TRUE(Hear(Json::array({of_group(1, 1)})).empty());
  auto told = Hear(Json::array({of_group(2, 0)}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].event_id, 1U);
  EXPECT_TRUE(Hear(Json::array({of_group(3, 1)})).empty());
  told = Hear(Json::array({of_group(4, 1), of_group(5, 0)}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].event_id, 2U);
  EXPECT_EQ(publisher_.lost(), 0U);
}

TEST_F(EngineReports, U8AClearedCacheIsClearedWithAndWithoutMoreElements) {
  for (const Json& cleared :
       {Json::array({"AllBlocksCleared"}), Json::array({"AllBlocksCleared", "x"})}) {
    Hear(Json::array({Json::array({"BlockStored", {kHash}, nullptr, Tokens(), 16})}));
    const auto told = Hear(Json::array({cleared}));
    ASSERT_EQ(told.size(), 1U) << cleared;
    EXPECT_EQ(told[0].kind, RouterEvent::Kind::kCleared);
    // Nothing of the old cache counts any more: a removal is not held back by it.
    EXPECT_EQ(Hear(Json::array({Json::array({"BlockRemoved", {kHash}})})).size(), 1U);
  }
}

TEST_F(EngineReports, U9WhatIsNoBatchIsRefusedAndCostsNothingElse) {
  for (const std::string& payload : {std::string("\xc1"), std::string(), std::string("\x93", 1)}) {
    EXPECT_FALSE(transport::DecodeKvBatch(payload).has_value());
  }
  EXPECT_EQ(Hear(Json::array({Json::array({"BlockStored", {1}, nullptr, Tokens(), 16}),
                              Json::array({"BlockStored", {2}, nullptr, "tokens", 16}),
                              Json::array({"NeverHeardOf", {2}}),
                              Json::array({"BlockStored", {3}, nullptr, Tokens(), 16})}))
                .size(),
            2U);
  EXPECT_EQ(converter_.counters().unreadable, 2U);
}

TEST_F(EngineReports, U13OnlyTheFirstBlockTakesTheGivenParentAlsoWhenTheEventIsCut) {
  const auto told =
      Hear(Json::array({Json::array({"BlockStored", {11, 12, 13}, 10, Tokens(3), 16})}));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].parent, BlockHash{10});
  EXPECT_EQ(HashesOf(told[0]), (std::vector<std::uint64_t>{11, 12, 13}));

  RouterEvent whole = told[0];
  const auto pieces = SplitEvent(std::move(whole), 1);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].parent, BlockHash{10});
  EXPECT_EQ(pieces[1].parent, BlockHash{11});
  EXPECT_EQ(pieces[2].parent, BlockHash{12});
}

// The number of the engine's message is no event id: what the filters drop and what the engine said
// before leaves no hole.
TEST_F(EngineReports, U17IdsComeFromThePublisherPerWorkerAndRank) {
  std::vector<std::pair<WorkerId, DpRank>> names;
  std::vector<RankPublisher> publishers;
  for (const std::uint64_t worker : {1U, 2U}) {
    for (const std::uint32_t rank : {0U, 1U}) {
      names.emplace_back(WorkerId{worker}, DpRank{rank});
      publishers.emplace_back(RankPublisher::Options{WorkerId{worker}, DpRank{rank}, {}, true},
                              TimePoint{});
    }
  }
  std::vector<std::uint64_t> raw(publishers.size(), 0);
  std::vector<std::uint64_t> next(publishers.size(), 1);
  for (std::uint64_t round = 0; round < 50; ++round) {
    const std::size_t who = (round * 7) % publishers.size();
    RouterEvent event;
    event.event_id = raw[who]++;
    event.blocks = {{BlockHash{round + 1}, TokensHash{round + 1}}};
    publishers[who].Take({event}, TimePoint{}, 1U << 20, [&](const RouterEvent& told) {
      EXPECT_EQ(told.event_id, next[who]++);
      EXPECT_EQ(told.worker_id, names[who].first);
      EXPECT_EQ(told.dp_rank, names[who].second);
    });
  }
  EXPECT_EQ(std::accumulate(next.begin(), next.end(), std::uint64_t{0}), 50U + next.size());
}

// 20,000 blocks are more than a NATS message of 1 MiB holds as JSON.
TEST_F(EngineReports, U19AStoreOf20000BlocksGoesOutInPiecesThatFit) {
  constexpr std::size_t kPayloadMax = 1U << 20;
  RouterEvent event;
  for (std::uint64_t i = 1; i <= 20'000; ++i) {
    event.blocks.push_back({BlockHash{~i}, TokensHash{~(i << 20U)}});
  }
  std::size_t blocks = 0;
  std::uint64_t last_id = 0;
  std::optional<BlockHash> last_block;
  publisher_.Take({event}, TimePoint{}, kPayloadMax, [&](const RouterEvent& piece) {
    std::string json;
    transport::AppendRouterEventJson(json, piece, transport::kRouterEventForm16);
    EXPECT_LE(json.size(), kPayloadMax);
    EXPECT_LE(transport::EncodeRouterEvents({&piece, 1}, transport::kRouterEventForm13).size(),
              kPayloadMax);
    EXPECT_EQ(piece.event_id, ++last_id);
    EXPECT_EQ(piece.parent, last_block);
    last_block = piece.blocks.back().block_hash;
    blocks += piece.blocks.size();
  });
  EXPECT_EQ(blocks, 20'000U);
  EXPECT_GT(last_id, 1U);
}

}  // namespace
}  // namespace understudy::worker
