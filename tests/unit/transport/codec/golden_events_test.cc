// Event plane messages of the real stacks: vectors/events/event_plane_live_<release>.json.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/event_payloads.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

std::optional<std::uint64_t> Maybe(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::uint64_t>());
}

class GoldenEvents : public ::testing::TestWithParam<std::string> {
 protected:
  /// The messages of `topic`.
  [[nodiscard]] static Json Messages(const std::string& topic) {
    Json found = Json::array();
    for (const Json& message : Load("events/event_plane_live_" + GetParam() + ".json")) {
      if (topic.empty() || message["envelope"]["topic"] == topic) {
        found.push_back(message);
      }
    }
    return found;
  }
};
INSTANTIATE_TEST_SUITE_P(Releases,
                         GoldenEvents,
                         ::testing::Values("1.3.0", "1.6.1"),
                         [](const auto& release) {
                           return release.param == "1.3.0" ? "v13" : "v16";
                         });

TEST_P(GoldenEvents, EnvelopesDecodeAndReencodeToTheSameBytes) {
  const Json messages = Messages("");
  ASSERT_GT(messages.size(), 5U);
  for (const Json& message : messages) {
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

TEST_P(GoldenEvents, LoadsOfWorkerAndRouterDecodeAndReencodeToTheSameBytes) {
  const Json messages = Messages("kv_metrics");
  EXPECT_EQ(messages.size(), GetParam() == "1.3.0" ? 4U : 2U);
  for (const Json& message : messages) {
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
  }
}

// Idle, prefill and decode.
TEST_P(GoldenEvents, ForwardPassMetricsDecodeAndReencodeToTheSameBytes) {
  const Json messages = Messages("forward-pass-metrics");
  EXPECT_GE(messages.size(), 3U);
  for (const Json& message : messages) {
    const std::string bytes = FromHex(message["output_hex"]);
    const auto pass = DecodeForwardPass(bytes);
    ASSERT_TRUE(pass.has_value()) << pass.error().message;
    const Json& seen = message["output_decoded"];
    EXPECT_EQ(pass->worker_id, seen["worker_id"]);
    EXPECT_EQ(pass->counter_id, seen["counter_id"]);
    EXPECT_EQ(pass->wall_time_s, seen["wall_time"]);
    EXPECT_EQ(pass->prefill_tokens, seen["scheduled_requests"]["sum_prefill_tokens"]);
    EXPECT_EQ(pass->decode.sum, seen["scheduled_requests"]["sum_decode_kv_tokens"]);
    EXPECT_EQ(pass->queued_prefill.sum, seen["queued_requests"]["sum_prefill_tokens"]);
    std::string again;
    EncodeForwardPass(again, *pass);
    EXPECT_EQ(again, bytes);
  }
}

TEST_P(GoldenEvents, SequenceEventsDecodeAndReencodeToTheSameBytes) {
  const Json messages = Messages("active_sequences_events");
  EXPECT_EQ(messages.empty(), GetParam() == "1.3.0");
  for (const Json& message : messages) {
    const std::string bytes = FromHex(message["output_hex"]);
    const auto event = DecodeSequenceEvent(bytes);
    ASSERT_TRUE(event.has_value()) << event.error().message;
    const Json& seen = message["output_decoded"];
    EXPECT_EQ(event->request_id, seen["request_id"]);
    EXPECT_EQ(event->worker_id, seen["worker"]["worker_id"]);
    EXPECT_EQ(event->dp_rank, seen["worker"]["dp_rank"]);
    EXPECT_EQ(event->kind, seen["data"]);
    EXPECT_EQ(event->router_id, seen["router_id"]);
    std::string again;
    AppendSequenceEvent(again, *event);
    EXPECT_EQ(again, bytes);
  }
}

}  // namespace
}  // namespace understudy::transport::golden
