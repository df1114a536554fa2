// Requests and responses of disaggregated deployments, originals on both sides:
// tests/vectors/disagg. The frames between the workers are in golden_bootstrap_test.cc.
#include "tests/unit/transport/codec/golden.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

using Kind = ResponseFrame::Kind;

/// What a frontend sent, and what the workers answered.
class GoldenDisagg : public ::testing::TestWithParam<const char*> {
 protected:
  const Json vector_ = Load(std::string("disagg/") + GetParam() + ".json");
};

std::string FileOf(const ::testing::TestParamInfo<const char*>& file) {
  return file.param;
}
INSTANTIATE_TEST_SUITE_P(Files, GoldenDisagg, ::testing::ValuesIn(kHandoffs), FileOf);
INSTANTIATE_TEST_SUITE_P(FilesWithoutHandoff,
                         GoldenDisagg,
                         ::testing::Values("no_bootstrap_fallback", "trtllm_unsupported"),
                         FileOf);

std::string FrameOf(const Json& request) {
  return FromHex(request.at("frame_prefix_hex")) + request.at("control_text").get<std::string>() +
         request.at("body_text").get<std::string>();
}

PreprocessedRequest BodyOf(const Json& request) {
  auto body = DecodeRequest(
      PayloadCodec::kJson, request.at("body_text").get<std::string>(), DecodeLimits{});
  EXPECT_TRUE(body) << body.error().message;
  return body.value_or(PreprocessedRequest());
}

TEST_P(GoldenDisagg, FramesOfRequestsAreSplitAndWrittenToTheSameBytes) {
  for (const Json& request : vector_.at("nats_requests")) {
    const std::string bytes = FrameOf(request);
    const auto frame = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(frame->frame_bytes, bytes.size());
    std::string again;
    AppendTwoPart(again, frame->header, frame->body);
    EXPECT_EQ(again, bytes);
    const auto control = ParseRequestControl(frame->header);
    ASSERT_TRUE(control) << control.error().message;
    EXPECT_EQ(EncodeRequestControl(*control), frame->header);
    EXPECT_EQ(control->id, request.at("nats_headers").at("request-id"));
    EXPECT_EQ(request.at("ack_body_hex"), "");
  }
}

TEST_P(GoldenDisagg, M207_BodiesSayWhereTheWorkersMeet) {
  for (const Json& request : vector_.at("nats_requests")) {
    const Json& seen = request.at("body");
    const PreprocessedRequest body = BodyOf(request);
    EXPECT_EQ(body.token_ids, seen.at("token_ids").get<std::vector<std::uint32_t>>());
    EXPECT_EQ(body.max_tokens, seen.at("stop_conditions").at("max_tokens").get<std::uint32_t>());
    const bool has_info = seen.contains("bootstrap_info") && !seen.at("bootstrap_info").is_null();
    ASSERT_EQ(body.bootstrap_info.has_value(), has_info);
    if (has_info) {
      const Json& info = seen.at("bootstrap_info");
      EXPECT_EQ(body.bootstrap_info->host, info.at("bootstrap_host"));
      EXPECT_EQ(body.bootstrap_info->port, info.at("bootstrap_port"));
      EXPECT_EQ(body.bootstrap_info->room, info.at("bootstrap_room"));
      EXPECT_EQ(ToText(*body.bootstrap_info->handoff_id), info.at("handoff_id"));
    }
    const auto again = DecodeRequest(
        PayloadCodec::kJson, EncodeRequest(PayloadCodec::kJson, body), DecodeLimits{});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->bootstrap_info, body.bootstrap_info);
  }
}

// Both workers take the id of the rendezvous from their own request.
TEST_P(GoldenDisagg, M214_PrefillAndDecodeAreToldTheSameNames) {
  const Json& requests = vector_.at("nats_requests");
  for (std::size_t i = 1; i < requests.size(); ++i) {
    EXPECT_EQ(requests.at(i).at("control").at("id"), requests.at(0).at("control").at("id"));
    const auto first = BodyOf(requests.at(0)).bootstrap_info;
    EXPECT_EQ(BodyOf(requests.at(i)).bootstrap_info, first);
  }
}

TEST(GoldenDisaggRanks, M213_TheRoomTellsTheRankOfThePrefill) {
  constexpr std::uint64_t kRanks = 2;
  const Json vector = Load("disagg/client_disconnect_in_transfer.json");
  const Json& request = vector.at("nats_requests").at(0);
  const PreprocessedRequest body = BodyOf(request);
  ASSERT_TRUE(body.dp_rank && body.bootstrap_info);
  EXPECT_EQ(request.at("body").at("routing").at("prefill_dp_rank"), *body.dp_rank);
  EXPECT_EQ(body.bootstrap_info->room % kRanks, *body.dp_rank);
}

TEST(GoldenDisaggFallback, M211_WithoutARendezvousADecodeRequestIsAnOrdinaryOne) {
  const Json vector = Load("disagg/no_bootstrap_fallback.json");
  const Json& requests = vector.at("nats_requests");
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests.at(1).at("body").at("prefill_result").at("disaggregated_params"), "dummy");
  const PreprocessedRequest prefill = BodyOf(requests.at(0));
  const PreprocessedRequest decode = BodyOf(requests.at(1));
  EXPECT_FALSE(prefill.bootstrap_info || decode.bootstrap_info);
  EXPECT_EQ(prefill.max_tokens, 1U);
  EXPECT_EQ(decode.token_ids, prefill.token_ids) << "the whole prompt, to be computed again";
}

/// One two-part frame of a response stream. `header_text` and `body_text`, or `header` and `body`.
std::string ResponseBytes(const Json& captured) {
  std::string bytes;
  AppendTwoPart(bytes,
                captured.value("header_text", captured.value("header", "")),
                captured.value("body_text", captured.value("body", "")));
  return bytes;
}

ResponseFrame DecodeFrame(const std::string& bytes) {
  const auto view = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
  EXPECT_TRUE(view);
  auto frame = DecodeResponseFrame(PayloadCodec::kJson, *view);
  EXPECT_TRUE(frame) << frame.error().message << ": " << bytes;
  return frame.value_or(ResponseFrame());
}

/// The frame as we write it.
std::string Ours(const ResponseFrame& frame) {
  std::string out;
  switch (frame.kind) {
    case Kind::kHandshake:
      AppendHandshake(out, frame.subject);
      break;
    case Kind::kPrologue:
      AppendPrologue(out);
      break;
    case Kind::kErrorPrologue:
      AppendErrorPrologue(out, frame.error);
      break;
    case Kind::kCompleteFinal:
      AppendCompleteFinal(out, PayloadCodec::kJson);
      break;
    case Kind::kSentinel:
      AppendSentinel(out);
      break;
    case Kind::kItem:
      if (!frame.error.empty()) {
        AppendFinishError(out, PayloadCodec::kJson, frame.error);
      } else if (frame.finish_reason) {
        AppendFinish(out, PayloadCodec::kJson, *frame.finish_reason, nullptr);
      } else if (frame.disaggregated_params) {
        AppendPrefillToken(out, PayloadCodec::kJson, frame.token_ids.at(0), Usage());
      } else {
        AppendToken(out, PayloadCodec::kJson, frame.token_ids.at(0));
      }
      break;
    case Kind::kErrorItem:
      break;
  }
  return out;
}

/// Everything but items is written to the same bytes. Items of ours are shorter on purpose
/// (golden_responses_test.cc): what both say is equal.
void ExpectReadAndWritten(const Json& captured) {
  const std::string bytes = ResponseBytes(captured);
  const ResponseFrame frame = DecodeFrame(bytes);
  const std::string ours = Ours(frame);
  if (frame.kind != Kind::kItem) {
    EXPECT_EQ(ours, bytes);
    return;
  }
  const ResponseFrame again = DecodeFrame(ours);
  EXPECT_EQ(again.kind, frame.kind) << bytes;
  EXPECT_EQ(again.token_ids, frame.token_ids);
  EXPECT_EQ(again.finish_reason, frame.finish_reason);
  EXPECT_EQ(again.error, frame.error);
  EXPECT_EQ(again.disaggregated_params, frame.disaggregated_params);
}

TEST_P(GoldenDisagg, ResponsesAreReadAndWritten) {
  std::size_t frames = 0;
  for (const Json& connection : vector_.at("response_plane")) {
    for (const Json& captured : connection) {
      if (captured.contains("event")) {
        continue;  // FIN, RST
      }
      if (captured.contains("prefix_hex")) {
        EXPECT_EQ(ResponseBytes(captured).substr(0, 24), FromHex(captured.at("prefix_hex")));
      }
      if (captured.at("dir") == "s2c") {
        const std::string bytes = ResponseBytes(captured);
        EXPECT_EQ(ParseStreamControl(*ParseTwoPart(bytes, 0)), StreamControl::kKill);
      } else {
        ExpectReadAndWritten(captured);
      }
      ++frames;
    }
  }
  EXPECT_GE(frames, 3U);
}

/// Requests that a script sent to single workers.
class GoldenCases : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenCases, ResponsesAreReadAndWritten) {
  std::size_t frames = 0;
  const Json vector = Load(std::string("disagg/") + GetParam() + ".json");
  for (const auto& [name, items] : vector.at("cases").items()) {
    SCOPED_TRACE(name);
    for (const Json& captured : items) {
      if (captured.contains("nats_reply_body")) {
        EXPECT_EQ(captured.at("nats_reply_body"), "");
      } else if (captured.contains("header") && captured.contains("body")) {
        ExpectReadAndWritten(captured);
        ++frames;
      }
    }
  }
  EXPECT_GT(frames, 30U);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         GoldenCases,
                         ::testing::Values("worker_direct_requests",
                                           "bootstrap_source_probes",
                                           "bootstrap_destination_probes"),
                         [](const auto& file) { return std::string(file.param); });

}  // namespace
}  // namespace understudy::transport::golden
