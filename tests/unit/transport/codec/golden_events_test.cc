// Event plane messages of the real 1.3.0 stack: vectors/events/event_plane_live_1.3.0.json.
#include "tests/unit/transport/codec/golden.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

std::optional<std::uint64_t> Maybe(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::uint64_t>());
}

TEST(GoldenEvents, EnvelopesDecodeAndReencodeToTheSameBytes) {
  const Json vector = Load("events/event_plane_live_1.3.0.json");
  ASSERT_GT(vector.size(), 5U);
  for (const Json& message : vector) {
    const std::string bytes = FromHex(message["output_envelope_hex"]);
    const auto envelope = DecodeEnvelope(bytes);
    ASSERT_TRUE(envelope.has_value()) << envelope.error().message;
    EXPECT_EQ(envelope->publisher_id, message["envelope"]["publisher_id"]);
    EXPECT_EQ(envelope->sequence, message["envelope"]["sequence"]);
    EXPECT_EQ(envelope->published_at_ms, message["envelope"]["published_at"]);
    EXPECT_EQ(envelope->topic, message["envelope"]["topic"]);
    EXPECT_EQ(envelope->payload, FromHex(message["output_hex"]));
    EXPECT_EQ(EncodeEnvelope(*envelope), bytes);
  }
}

TEST(GoldenEvents, LoadsOfWorkerAndRouterDecodeAndReencodeToTheSameBytes) {
  std::size_t loads = 0;
  const Json vector = Load("events/event_plane_live_1.3.0.json");
  for (const Json& message : vector) {
    if (message["envelope"]["topic"] != "kv_metrics") {
      continue;
    }
    const std::string bytes = FromHex(message["output_hex"]);
    const auto load = DecodeActiveLoad(bytes);
    ASSERT_TRUE(load.has_value()) << load.error().message;
    const Json& seen = message["output_decoded"];
    EXPECT_EQ(load->worker_id, seen["worker_id"]);
    EXPECT_EQ(load->dp_rank, seen["dp_rank"]);
    EXPECT_EQ(load->active_decode_blocks, Maybe(seen["active_decode_blocks"]));
    EXPECT_EQ(load->active_prefill_tokens, Maybe(seen["active_prefill_tokens"]));
    EXPECT_EQ(load->kv_used_blocks, Maybe(seen["kv_used_blocks"]));
    EXPECT_EQ(EncodeActiveLoad(*load), bytes);
    ++loads;
  }
  EXPECT_EQ(loads, 4U);
}

}  // namespace
}  // namespace understudy::transport::golden
