// Requests of real 1.3.0 and 1.6.1 frontends, both codecs and planes: vectors/wire/request_*.json.
#include "tests/unit/transport/codec/golden.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

/// The two-part frame: a NATS payload is one; a TCP request frame ends with one.
std::string FrameOf(const Json& request) {
  if (request.contains("payload_hex")) {
    return FromHex(request["payload_hex"]);
  }
  const std::string frame = FromHex(request["frame_hex"]);
  return frame.substr(frame.size() - request["payload_len"].get<std::size_t>());
}

template <class T>
std::optional<T> At(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) {
    return std::nullopt;
  }
  return object[key].get<T>();
}

class GoldenRequests : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { vector_ = Load(GetParam()); }
  Json vector_;
};

INSTANTIATE_TEST_SUITE_P(Files, GoldenRequests, ::testing::ValuesIn(WireFiles("request_")));

TEST(GoldenRequestFiles, AreAllThere) {
  EXPECT_EQ(WireFiles("request_").size(), 7U);
}

TEST_P(GoldenRequests, FramesSplitAndReencodeToTheSameBytes) {
  for (const Json& request : vector_["requests"]) {
    const std::string bytes = FrameOf(request);
    const auto frame = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header.size(), request["decoded"]["header_len"]);
    EXPECT_EQ(frame->body.size(), request["decoded"]["body_len"]);
    EXPECT_EQ(frame->frame_bytes, bytes.size());
    std::string again;
    AppendTwoPart(again, frame->header, frame->body);
    EXPECT_EQ(again, bytes);
  }
}

TEST_P(GoldenRequests, ControlHeadersDecodeAndReencodeToTheSameBytes) {
  for (const Json& request : vector_["requests"]) {
    const std::string bytes = FrameOf(request);
    const auto frame = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
    const auto control = ParseRequestControl(frame->header);
    ASSERT_TRUE(control.has_value()) << control.error().message;
    const Json& info = request["decoded"]["connection_info_decoded"];
    EXPECT_EQ(control->id, request["decoded"]["control"]["id"]);
    EXPECT_EQ(control->codec, CodecOf(vector_));
    EXPECT_EQ(control->response_type, "many_out");
    EXPECT_EQ(control->transport, "tcp_server");
    EXPECT_EQ(control->address, info["address"]);
    EXPECT_EQ(control->subject, info["subject"]);
    EXPECT_EQ(control->context, info["context"]);
    EXPECT_EQ(control->stream_type, info["stream_type"]);
    EXPECT_EQ(EncodeRequestControl(*control), frame->header);
  }
}

// The other way round is not compared: our client sends only the fields it sets, a real frontend
// also writes every sampling option as null (43 keys); what we send is read back instead.
TEST_P(GoldenRequests, BodiesDecodeToTheFieldsSeen) {
  for (const Json& request : vector_["requests"]) {
    const std::string bytes = FrameOf(request);
    const auto frame = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
    const auto body = DecodeRequest(CodecOf(vector_), frame->body, DecodeLimits{});
    ASSERT_TRUE(body.has_value()) << body.error().message;
    const Json& seen = request["decoded"]["body"];
    const Json& stop = seen["stop_conditions"];
    EXPECT_EQ(body->model, seen["model"]);
    EXPECT_EQ(body->token_ids, seen["token_ids"].get<std::vector<std::uint32_t>>());
    EXPECT_EQ(body->max_tokens, At<std::uint32_t>(stop, "max_tokens"));
    EXPECT_EQ(body->min_tokens, At<std::uint32_t>(stop, "min_tokens"));
    EXPECT_EQ(body->ignore_eos, At<bool>(stop, "ignore_eos"));
    EXPECT_EQ(body->annotations, seen["annotations"].get<std::vector<std::string>>());
    EXPECT_EQ(body->dp_rank, At<std::uint32_t>(seen["routing"], "dp_rank"));
    EXPECT_EQ(body->backend_instance_id, At<std::uint64_t>(seen["routing"], "backend_instance_id"));
    EXPECT_FALSE(body->bootstrap_info.has_value());
    EXPECT_FALSE(body->health_check);
    const auto again =
        DecodeRequest(CodecOf(vector_), EncodeRequest(CodecOf(vector_), *body), DecodeLimits{});
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->token_ids, body->token_ids);
    EXPECT_EQ(again->max_tokens, body->max_tokens);
    EXPECT_EQ(again->dp_rank, body->dp_rank);
  }
}

}  // namespace
}  // namespace understudy::transport::golden
