#include "understudy/transport/codec.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

std::string Pack(const Json& value) {
  const auto bytes = Json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

Json Envelope() {
  return {{"publisher_id", 18446744073709551615U},
          {"sequence", 5},
          {"published_at", 1796016272832},
          {"topic", "kv_metrics"},
          {"payload", Json::binary({1, 2, 255})}};
}

TEST(EventEnvelope, GivesBackWhatWasEncoded) {
  const EventEnvelope sent{
      ~std::uint64_t{0}, 7, 1796016272832, "kv-events", std::string(70000, '\xff')};
  const auto got = DecodeEnvelope(EncodeEnvelope(sent));
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(got->publisher_id, sent.publisher_id);
  EXPECT_EQ(got->sequence, sent.sequence);
  EXPECT_EQ(got->published_at_ms, sent.published_at_ms);
  EXPECT_EQ(got->topic, sent.topic);
  EXPECT_EQ(got->payload, sent.payload);
}

TEST(EventEnvelope, EncodesAsAnotherLibraryDoes) {
  EXPECT_EQ(EncodeEnvelope({18446744073709551615U, 5, 1796016272832, "kv_metrics", "\x01\x02\xff"}),
            Pack(Envelope()));
}

TEST(EventEnvelope, SkipsUnknownKeys) {
  Json envelope = Envelope();
  envelope["later"] = {1, 2, 3};
  EXPECT_TRUE(DecodeEnvelope(Pack(envelope)).has_value());
}

TEST(EventEnvelope, NamesMissingAndWrongFields) {
  for (const char* key : {"publisher_id", "sequence", "published_at", "topic", "payload"}) {
    Json envelope = Envelope();
    envelope.erase(key);
    auto got = DecodeEnvelope(Pack(envelope));
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().message, std::string("event envelope: ") + key + ": missing");
    envelope[key] = nullptr;
    got = DecodeEnvelope(Pack(envelope));
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Errc::kMalformed);
  }
}

TEST(EventEnvelope, RefusesTruncationAndBytesBehind) {
  const std::string whole = Pack(Envelope());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeEnvelope(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(DecodeEnvelope(whole + "\xc0").has_value());
  EXPECT_FALSE(DecodeEnvelope("\x91\x01").has_value());
}

TEST(ActiveLoadMessage, WritesEveryKeyAlways) {
  ActiveLoad load;
  load.worker_id = 1254149326330155078;
  load.dp_rank = 1;
  load.kv_used_blocks = 9;
  EXPECT_EQ(EncodeActiveLoad(load),
            Pack(Json{{"worker_id", 1254149326330155078},
                      {"dp_rank", 1},
                      {"active_decode_blocks", nullptr},
                      {"active_prefill_tokens", nullptr},
                      {"kv_used_blocks", 9}}));
}

TEST(ActiveLoadMessage, GivesBackWhatWasEncoded) {
  const ActiveLoad sent{5, 6, 7, 8, std::nullopt};
  const auto got = DecodeActiveLoad(EncodeActiveLoad(sent));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->worker_id, 5U);
  EXPECT_EQ(got->dp_rank, 6U);
  EXPECT_EQ(got->active_decode_blocks, 7U);
  EXPECT_EQ(got->active_prefill_tokens, 8U);
  EXPECT_FALSE(got->kv_used_blocks.has_value());
}

TEST(ActiveLoadMessage, RefusesWhatIsNone) {
  EXPECT_FALSE(DecodeActiveLoad("").has_value());
  EXPECT_FALSE(DecodeActiveLoad(Pack(Json::object())).has_value());
  EXPECT_FALSE(DecodeActiveLoad(Pack({{"worker_id", 1}})).has_value());
  EXPECT_FALSE(DecodeActiveLoad(Pack({{"worker_id", 1}, {"dp_rank", 1ULL << 33U}})).has_value());
  EXPECT_FALSE(DecodeActiveLoad(Pack({{"worker_id", 1}, {"dp_rank", 1}, {"kv_used_blocks", "x"}}))
                   .has_value());
}

}  // namespace
}  // namespace understudy::transport
