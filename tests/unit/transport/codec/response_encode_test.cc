#include "understudy/transport/codec.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

/// The body of the one frame in `bytes`, as another library reads it.
Json Body(PayloadCodec codec, const std::string& bytes) {
  const auto frame = ParseTwoPart(bytes, DecodeLimits{}.body_bytes_max);
  EXPECT_TRUE(frame.has_value());
  EXPECT_TRUE(frame->header.empty());
  EXPECT_EQ(frame->frame_bytes, bytes.size());
  return codec == PayloadCodec::kJson ? Json::parse(frame->body) : Json::from_msgpack(frame->body);
}

std::string Header(const std::string& bytes) {
  const auto frame = ParseTwoPart(bytes, 0);
  EXPECT_TRUE(frame.has_value());
  return std::string(frame->header);
}

Json Item(const Json& output) {
  return {{"data", {{"data", output}}}, {"complete_final", false}};
}

Json UsageJson(std::uint64_t prompt, std::uint64_t completion, std::uint64_t cached) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"audio_tokens", nullptr}, {"cached_tokens", cached}}}};
}

class ResponseItems : public ::testing::TestWithParam<PayloadCodec> {};

INSTANTIATE_TEST_SUITE_P(Codecs,
                         ResponseItems,
                         ::testing::Values(PayloadCodec::kJson, PayloadCodec::kMsgpack));

TEST_P(ResponseItems, TokenOfEveryWidth) {
  for (const std::uint32_t token : {0U, 9U, 127U, 128U, 255U, 256U, 65535U, 65536U, ~0U}) {
    std::string out = "before";
    AppendToken(out, GetParam(), token);
    EXPECT_EQ(Body(GetParam(), out.substr(6)), Item({{"token_ids", {token}}})) << token;
  }
}

TEST_P(ResponseItems, TheTokenOfAPrefillWorkerSaysThatItCanBeHandedOver) {
  std::string out;
  AppendPrefillToken(out, GetParam(), 1022, Usage{60, 1, 16});
  EXPECT_EQ(Body(GetParam(), out),
            Item({{"token_ids", {1022}},
                  {"disaggregated_params", "dummy"},
                  {"completion_usage", UsageJson(60, 1, 16)}}));
  const auto frame = ParseTwoPart(out, DecodeLimits{}.body_bytes_max);
  const auto decoded = DecodeResponseFrame(GetParam(), *frame);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(decoded->disaggregated_params);
  EXPECT_EQ(decoded->token_ids, (std::vector<std::uint32_t>{1022}));
}

TEST_P(ResponseItems, TokenWithUsage) {
  std::string out;
  AppendToken(out, GetParam(), 70000, Usage{14, 1, 13});
  EXPECT_EQ(Body(GetParam(), out),
            Item({{"token_ids", {70000}}, {"completion_usage", UsageJson(14, 1, 13)}}));
}

TEST_P(ResponseItems, UsageTotalDoesNotWrapAround) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  std::string out;
  AppendToken(out, GetParam(), 1, Usage{kMax, kMax, kMax});
  EXPECT_EQ(Body(GetParam(), out)["data"]["data"]["completion_usage"], UsageJson(kMax, kMax, kMax));
}

TEST_P(ResponseItems, FinishWithAndWithoutUsage) {
  std::string out;
  AppendFinish(out, GetParam(), "length", nullptr);
  EXPECT_EQ(Body(GetParam(), out),
            Item({{"token_ids", Json::array()}, {"finish_reason", "length"}}));
  out.clear();
  const Usage usage{2000, 300, 0};
  AppendFinish(out, GetParam(), "stop", &usage);
  EXPECT_EQ(Body(GetParam(), out),
            Item({{"token_ids", Json::array()},
                  {"finish_reason", "stop"},
                  {"completion_usage", UsageJson(2000, 300, 0)}}));
}

TEST_P(ResponseItems, FinishErrorKeepsAnyText) {
  std::string out;
  AppendFinishError(out, GetParam(), "boom \"x\"\n\xff");
  EXPECT_EQ(Body(GetParam(), out),
            Item({{"token_ids", Json::array()},
                  {"finish_reason", {{"error", "boom \"x\"\n\xEF\xBF\xBD"}}}}));
}

TEST_P(ResponseItems, ErrorItemCarriesTypeAndText) {
  std::string out;
  AppendErrorItem(out, GetParam(), "InvalidArgument", "bad \\ \xc3");
  EXPECT_EQ(
      Body(GetParam(), out),
      (Json{{"data",
             {{"event", "error"},
              {"error", {{"error_type", "InvalidArgument"}, {"message", "bad \\ \xEF\xBF\xBD"}}}}},
            {"complete_final", false}}));
}

TEST_P(ResponseItems, CompleteFinalHasNoData) {
  std::string out;
  AppendCompleteFinal(out, GetParam());
  EXPECT_EQ(Body(GetParam(), out), (Json{{"complete_final", true}}));
}

TEST(ResponseHeaders, HandshakeEscapesTheSubject) {
  std::string out;
  AppendHandshake(out, "a\"b");
  EXPECT_EQ(Header(out), R"({"subject":"a\"b","stream_type":"response"})");
}

TEST(ResponseHeaders, Prologues) {
  std::string out;
  AppendPrologue(out);
  EXPECT_EQ(Header(out), R"({"error":null})");
  out.clear();
  AppendErrorPrologue(out, "no\tway");
  EXPECT_EQ(Header(out), R"({"error":"no\tway"})");
  out.clear();
  AppendSentinel(out);
  EXPECT_EQ(Header(out), R"("sentinel")");
}

}  // namespace
}  // namespace understudy::transport
