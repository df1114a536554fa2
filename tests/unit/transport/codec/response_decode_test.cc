#include "understudy/transport/codec.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ResponseFrame::Kind;

ResponseFrame DecodeOne(PayloadCodec codec, const std::string& bytes) {
  const auto view = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
  EXPECT_TRUE(view.has_value());
  auto frame = DecodeResponseFrame(codec, *view);
  EXPECT_TRUE(frame.has_value()) << frame.error().message;
  return frame.value_or(ResponseFrame{});
}

std::string Bytes(PayloadCodec codec, const Json& value) {
  if (codec == PayloadCodec::kJson) {
    return value.dump();
  }
  const auto packed = Json::to_msgpack(value);
  return {packed.begin(), packed.end()};
}

class ResponseReading : public ::testing::TestWithParam<PayloadCodec> {
 protected:
  static Result<ResponseFrame> Decode(const Json& body) {
    const std::string bytes = Bytes(GetParam(), body);
    return DecodeResponseFrame(GetParam(), TwoPartView{{}, bytes, 0});
  }
  static std::string Refusal(const Json& body) {
    const auto frame = Decode(body);
    return frame ? "accepted" : frame.error().message;
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs,
                         ResponseReading,
                         ::testing::Values(PayloadCodec::kJson, PayloadCodec::kMsgpack));

TEST_P(ResponseReading, OwnFramesOfEveryKind) {
  const Usage usage{14, 3, 2};
  std::string out;
  AppendHandshake(out, "subject");
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kHandshake);
  EXPECT_EQ(DecodeOne(GetParam(), out).subject, "subject");
  out.clear();
  AppendPrologue(out);
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kPrologue);
  out.clear();
  AppendErrorPrologue(out, "no");
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kErrorPrologue);
  EXPECT_EQ(DecodeOne(GetParam(), out).error, "no");
  out.clear();
  AppendToken(out, GetParam(), 1234567);
  EXPECT_EQ(DecodeOne(GetParam(), out).token_ids, (std::vector<std::uint32_t>{1234567}));
  EXPECT_FALSE(DecodeOne(GetParam(), out).usage.has_value());
  out.clear();
  AppendFinish(out, GetParam(), "length", &usage);
  const ResponseFrame finish = DecodeOne(GetParam(), out);
  EXPECT_EQ(finish.kind, Kind::kItem);
  EXPECT_EQ(finish.finish_reason, "length");
  ASSERT_TRUE(finish.usage.has_value());
  EXPECT_EQ(finish.usage->prompt_tokens, 14U);
  EXPECT_EQ(finish.usage->completion_tokens, 3U);
  EXPECT_EQ(finish.usage->cached_tokens, 2U);
  out.clear();
  AppendFinishError(out, GetParam(), "boom");
  EXPECT_EQ(DecodeOne(GetParam(), out).finish_reason, "error");
  EXPECT_EQ(DecodeOne(GetParam(), out).error, "boom");
  out.clear();
  AppendErrorItem(out, GetParam(), "InvalidArgument", "bad");
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kErrorItem);
  EXPECT_EQ(DecodeOne(GetParam(), out).error, "bad");
  out.clear();
  AppendCompleteFinal(out, GetParam());
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kCompleteFinal);
  out.clear();
  AppendSentinel(out);
  EXPECT_EQ(DecodeOne(GetParam(), out).kind, Kind::kSentinel);
}

TEST_P(ResponseReading, CommentStandsInForAnErrorObject) {
  const auto frame = Decode(
      {{"data", {{"event", "error"}, {"comment", {"one", "two"}}}}, {"complete_final", false}});
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->kind, Kind::kErrorItem);
  EXPECT_EQ(frame->error, "one, two");
}

TEST_P(ResponseReading, NewerErrorFormKeepsItsMessage) {
  const auto frame = Decode({{"data",
                              {{"event", "error"},
                               {"error",
                                {{"error_type", {{"Backend", "Unknown"}}},
                                 {"class", "x"},
                                 {"message", "text"},
                                 {"caused_by", {{"message", "inner"}}}}}}},
                             {"complete_final", false}});
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->error, "text");
}

TEST_P(ResponseReading, AnnotationWithoutDataIsAnEmptyItem) {
  const auto frame =
      Decode({{"data", {{"event", "note"}, {"comment", {"x"}}}}, {"complete_final", false}});
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->kind, Kind::kItem);
  EXPECT_TRUE(frame->token_ids.empty());
}

TEST_P(ResponseReading, RefusesWhatContradictsItself) {
  EXPECT_NE(Refusal({{"data", {{"data", {{"token_ids", {1}}}}}}, {"complete_final", true}}),
            "accepted");
  EXPECT_NE(Refusal({{"complete_final", false}}), "accepted");
  EXPECT_NE(Refusal({{"data", nullptr}, {"complete_final", false}}), "accepted");
  EXPECT_NE(Refusal(Json::object()), "accepted");
}

TEST_P(ResponseReading, RefusesWrongTypes) {
  const auto item = [](const Json& output) {
    return Json{{"data", {{"data", output}}}, {"complete_final", false}};
  };
  EXPECT_EQ(Refusal(item({{"token_ids", {-1}}})),
            "response frame: token_ids: not an unsigned integer");
  EXPECT_EQ(Refusal(item({{"token_ids", {4294967296U}}})),
            "response frame: token_ids: 4294967296 does not fit into 32 bits");
  EXPECT_EQ(Refusal(item({{"finish_reason", 5}})),
            "response frame: finish_reason: not a word or an object");
  EXPECT_EQ(Refusal(item({{"completion_usage", 5}})),
            "response frame: completion_usage: not an object");
  EXPECT_EQ(Refusal(item(5)), "response frame: data: not an object");
  EXPECT_EQ(Refusal({{"complete_final", "yes"}}),
            "response frame: complete_final: not true or false");
  EXPECT_EQ(Refusal(Json::array()), "response frame: not an object");
}

TEST_P(ResponseReading, RefusesFrameWithHeaderAndBodyOrNeither) {
  EXPECT_FALSE(DecodeResponseFrame(GetParam(), TwoPartView{}).has_value());
  EXPECT_FALSE(
      DecodeResponseFrame(GetParam(), TwoPartView{R"("sentinel")", R"({"complete_final":true})", 0})
          .has_value());
}

TEST_P(ResponseReading, RefusesHeadersThatMeanNothing) {
  for (const char* header : {R"("hello")",
                             "{}",
                             "5",
                             R"({"error":5})",
                             R"({"subject":1})",
                             "{",
                             R"({"error":null,"error":"x"})",
                             R"({"subject":"a","error":null})"}) {
    EXPECT_FALSE(DecodeResponseFrame(GetParam(), TwoPartView{header, {}, 0}).has_value()) << header;
  }
}

TEST(ResponseReadingMsgpack, RefusesBrokenBytes) {
  for (const char* body : {"\x81",
                           "\x81\xa4",
                           "\xc1",
                           "\x81\xae"
                           "complete_final"
                           "\xc3\xc3"}) {
    EXPECT_FALSE(DecodeResponseFrame(PayloadCodec::kMsgpack, TwoPartView{{}, body, 0}).has_value());
  }
}

}  // namespace
}  // namespace understudy::transport
