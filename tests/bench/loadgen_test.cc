// The parts of the load generator that could make a wrong figure look right.
#include "tests/bench/loadgen/encode.h"
#include "tests/bench/loadgen/options.h"

#include <array>

#include <gtest/gtest.h>

namespace understudy::loadgen {
namespace {

std::optional<Options> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "understudy_loadgen");
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  return ParseOptions(static_cast<int>(argv.size()), argv.data());
}

TEST(LoadgenOptions, SplitsTheTargetIntoServerAndPath) {
  const auto nats = Parse({"--target", "nats://127.0.0.1:4222/a_b.generate-1f"});
  ASSERT_TRUE(nats.has_value());
  EXPECT_EQ(nats->plane, Plane::kNats);
  EXPECT_EQ(nats->host_port, "127.0.0.1:4222");
  EXPECT_EQ(nats->path, "a_b.generate-1f");
  const auto tcp = Parse({"--target", "tcp://[::1]:9000/1f/generate", "--pid", "worker=12"});
  ASSERT_TRUE(tcp.has_value());
  EXPECT_EQ(tcp->path, "1f/generate");
  ASSERT_EQ(tcp->processes.size(), 1U);
  EXPECT_EQ(tcp->processes[0].pid, 12);
}

class WrongArguments : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(WrongArguments, AreRefused) {
  EXPECT_FALSE(Parse(GetParam()).has_value());
}

INSTANTIATE_TEST_SUITE_P(
    LoadgenOptions,
    WrongArguments,
    ::testing::Values(std::vector<std::string>{},
                      std::vector<std::string>{"--target", "http://a:1/b"},
                      std::vector<std::string>{"--target", "nats://a:1"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "-c", "x"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "-c", "0"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "-n"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "--codec", "xml"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "--pid", "12"},
                      std::vector<std::string>{"--target", "nats://a:1/b", "--nope", "12"}));

Options SmallRequest(Codec codec) {
  Options options;
  options.codec = codec;
  options.model = "m";
  options.output_tokens = 300;
  return options;
}

TEST(LoadgenBody, JsonHasNoStrayCommasAndCarriesTheLimits) {
  const std::string body = EncodeBody(SmallRequest(Codec::kJson), {1000, 2});
  EXPECT_EQ(
      body.rfind(
          R"({"model":"m","token_ids":[1000,2],"stop_conditions":{"max_tokens":300,"stop":null,)",
          0),
      0U);
  EXPECT_NE(
      body.find(R"("eos_token_ids":[2],"mdc_sum":null,"annotations":[],"routing":{"dp_rank":0},)"),
      std::string::npos);
  EXPECT_EQ(body.back(), '}');
  EXPECT_EQ(body.find(",,"), std::string::npos);
}

TEST(LoadgenBody, MsgpackCountsItsKeysAndNumbers) {
  const std::string body = EncodeBody(SmallRequest(Codec::kMsgpack), {1000, 2});
  EXPECT_EQ(body.rfind("\x8a\xa5model\xa1m\xa9token_ids\x92\xcd\x03\xe8\x02\xafstop_"
                       "conditions\x87\xaamax_tokens\xcd\x01\x2c",
                       0),
            0U);
}

TEST(LoadgenBody, LongPromptsUseTheWideMsgpackForms) {
  const std::vector<std::uint32_t> ids(70000, 5);
  const std::string body = EncodeBody(SmallRequest(Codec::kMsgpack), ids);
  const std::string head("\xdd\x00\x01\x11\x70\x05", 6);
  EXPECT_NE(body.find(head), std::string::npos);
}

TEST(LoadgenFrames, TokensAreCountedInBothCodecs) {
  EXPECT_EQ(CountTokens(Codec::kJson, R"({"data":{"token_ids":[1,22,333],"tokens":null}})"), 3U);
  EXPECT_EQ(CountTokens(Codec::kJson, R"({"data":{"token_ids":[]}})"), 0U);
  EXPECT_EQ(CountTokens(Codec::kJson, R"({"data":{"token_ids":[)"), 0U);
  EXPECT_EQ(CountTokens(Codec::kMsgpack, "\x81\xa9token_ids\x93\x01\x02\x03"), 3U);
  EXPECT_EQ(CountTokens(Codec::kMsgpack, std::string("\x81\xa9token_ids\xdc\x01\x00", 14)), 256U);
  EXPECT_EQ(CountTokens(Codec::kMsgpack, "\x81\xa9token_ids"), 0U);
}

TEST(LoadgenFrames, TheClosingFrameIsKnownInBothCodecs) {
  EXPECT_TRUE(IsFinal(Codec::kJson, R"({"data":null,"complete_final":true})"));
  EXPECT_FALSE(IsFinal(Codec::kJson, R"({"data":{},"complete_final":false})"));
  EXPECT_TRUE(IsFinal(Codec::kMsgpack,
                      "\x82\xa4"
                      "data\xc0\xae"
                      "complete_final\xc3"));
  EXPECT_FALSE(IsFinal(Codec::kMsgpack,
                       "\x82\xa4"
                       "data\xc0\xae"
                       "complete_final\xc2"));
}

TEST(LoadgenFrames, TheHeadOfAFrameIsBigEndian) {
  const std::string frame = TwoPart("ab", "xyz");
  EXPECT_EQ(frame.size(), 29U);
  EXPECT_EQ(GetBigEndian(frame.data(), 8), 2U);
  EXPECT_EQ(GetBigEndian(frame.data() + 8, 8), 3U);
  EXPECT_EQ(GetBigEndian(frame.data() + 16, 8), 0U);
  EXPECT_EQ(frame.substr(24), "abxyz");
}

}  // namespace
}  // namespace understudy::loadgen
