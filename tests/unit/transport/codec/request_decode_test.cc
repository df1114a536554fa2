#include "understudy/transport/codec.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

std::string Bytes(PayloadCodec codec, const Json& value) {
  if (codec == PayloadCodec::kJson) {
    return value.dump();
  }
  const auto packed = Json::to_msgpack(value);
  return {packed.begin(), packed.end()};
}

class RequestBody : public ::testing::TestWithParam<PayloadCodec> {
 protected:
  static PreprocessedRequest Decode(const Json& value) {
    auto request = DecodeRequest(GetParam(), Bytes(GetParam(), value), DecodeLimits{});
    EXPECT_TRUE(request.has_value()) << request.error().message;
    return request.value_or(PreprocessedRequest{});
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs,
                         RequestBody,
                         ::testing::Values(PayloadCodec::kJson, PayloadCodec::kMsgpack));

TEST_P(RequestBody, ReadsEveryField) {
  const PreprocessedRequest request =
      Decode({{"model", "tiny"},
              {"token_ids", {0, 127, 128, 65536, 4294967295U}},
              {"stop_conditions", {{"max_tokens", 3}, {"min_tokens", 1}, {"ignore_eos", true}}},
              {"annotations", {"a", "b"}},
              {"routing", {{"dp_rank", 2}, {"backend_instance_id", 18446744073709551615U}}},
              {"bootstrap_info",
               {{"bootstrap_host", "h"},
                {"bootstrap_port", 5800},
                {"bootstrap_room", 9223372036854775807U},
                {"handoff_id", "6F0C1A9E-0000-4000-8000-000000000007"}}},
              {"request_timestamp_ms", 12.5},
              {"_HEALTH_CHECK", true}});
  EXPECT_EQ(request.model, "tiny");
  EXPECT_EQ(request.token_ids, (std::vector<std::uint32_t>{0, 127, 128, 65536, 4294967295U}));
  EXPECT_EQ(request.max_tokens, 3U);
  EXPECT_EQ(request.min_tokens, 1U);
  EXPECT_EQ(request.ignore_eos, true);
  EXPECT_EQ(request.annotations, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.dp_rank, 2U);
  EXPECT_EQ(request.backend_instance_id, 18446744073709551615U);
  EXPECT_EQ(request.bootstrap_info,
            (BootstrapInfo{
                "h", 5800, 9223372036854775807U, Uuid{0x6f0c1a9e00004000, 0x8000000000000007}}));
  EXPECT_EQ(request.request_timestamp_ms, 12.5);
  EXPECT_TRUE(request.health_check);
}

// Writers of msgpack in Rust put an id into 16 bytes.
TEST(RequestBodyMsgpack, TakesAnIdAsBytes) {
  const std::string body =
      "\x82\xa9token_ids\x90\xae"
      "bootstrap_info\x84\xae"
      "bootstrap_host\xa1h\xae"
      "bootstrap_port\x07\xae"
      "bootstrap_room\x08\xaahandoff_id\xc4\x10"
      "0123456789abcdef";
  const auto request = DecodeRequest(PayloadCodec::kMsgpack, body, DecodeLimits{});
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->bootstrap_info,
            (BootstrapInfo{"h", 7, 8, Uuid{0x3031323334353637, 0x3839616263646566}}));
}

TEST_P(RequestBody, DefaultsWhatIsMissing) {
  const PreprocessedRequest request = Decode({{"token_ids", Json::array()}});
  EXPECT_TRUE(request.model.empty());
  EXPECT_TRUE(request.token_ids.empty());
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_FALSE(request.ignore_eos.has_value());
  EXPECT_FALSE(request.dp_rank.has_value());
  EXPECT_FALSE(request.bootstrap_info.has_value());
  EXPECT_FALSE(request.health_check);
}

TEST_P(RequestBody, TakesNullAsMissing) {
  const PreprocessedRequest request =
      Decode({{"model", nullptr},
              {"token_ids", {1}},
              {"stop_conditions", {{"max_tokens", nullptr}, {"ignore_eos", nullptr}}},
              {"annotations", nullptr},
              {"routing", nullptr},
              {"bootstrap_info", nullptr},
              {"request_timestamp_ms", nullptr},
              {"_HEALTH_CHECK", nullptr}});
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_FALSE(request.bootstrap_info.has_value());
  EXPECT_FALSE(request.request_timestamp_ms.has_value());
}

TEST_P(RequestBody, SkipsUnknownKeysOfEveryShape) {
  const PreprocessedRequest request =
      Decode({{"x1", {1, -2, 2.5, nullptr, "s", {{"a", {true, false}}}}},
              {"token_ids", {7}},
              {"x2", {{"deep", {{"er", Json::array()}}}}},
              {"stop_conditions", {{"stop", {"zzz"}}, {"max_tokens", 9}}},
              {"x3", std::string(70000, 'x')}});
  EXPECT_EQ(request.token_ids, (std::vector<std::uint32_t>{7}));
  EXPECT_EQ(request.max_tokens, 9U);
}

TEST_P(RequestBody, TakesWholeFloatsAsIntegersAndIntegersAsFloats) {
  const PreprocessedRequest request = Decode({{"token_ids", {1.0, 2.0}},
                                              {"stop_conditions", {{"max_tokens", 3.0}}},
                                              {"request_timestamp_ms", 17}});
  EXPECT_EQ(request.token_ids, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(request.max_tokens, 3U);
  EXPECT_EQ(request.request_timestamp_ms, 17.0);
}

TEST_P(RequestBody, GivesBackTimestampsOfEveryMagnitude) {
  // Shortest digits of a large whole number need no point and no exponent: an integer to a reader.
  std::mt19937_64 random(20);
  for (int exponent = -320; exponent <= 308; ++exponent) {
    for (int sample = 0; sample < 20; ++sample) {
      PreprocessedRequest sent;
      sent.request_timestamp_ms =
          std::ldexp(static_cast<double>(random()), exponent * 3 - 64) * (sample % 2 == 0 ? 1 : -1);
      sent.request_timestamp_ms =
          sample == 0 ? std::pow(10.0, exponent) : *sent.request_timestamp_ms;
      if (!std::isfinite(*sent.request_timestamp_ms)) {
        continue;
      }
      const auto got = DecodeRequest(GetParam(), EncodeRequest(GetParam(), sent), DecodeLimits{});
      ASSERT_TRUE(got.has_value()) << *sent.request_timestamp_ms << ": " << got.error().message;
      EXPECT_EQ(got->request_timestamp_ms, sent.request_timestamp_ms);
    }
  }
}

TEST_P(RequestBody, HoldsAHundredThousandsOfTokens) {
  PreprocessedRequest sent;
  for (std::uint32_t i = 0; i < 300000; ++i) {
    sent.token_ids.push_back(i * 7919U);
  }
  const auto got = DecodeRequest(GetParam(), EncodeRequest(GetParam(), sent), DecodeLimits{});
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->token_ids, sent.token_ids);
}

PreprocessedRequest Sample(std::mt19937& random) {
  PreprocessedRequest request;
  request.model = random() % 2 == 0 ? "tiny" : "na\"me\n\xd1\x8f";
  for (std::size_t i = random() % 40; i > 0; --i) {
    request.token_ids.push_back(static_cast<std::uint32_t>(random() >> random() % 32));
  }
  const auto maybe = [&](auto& field, auto value) {
    if (random() % 2 == 0) {
      field = value;
    }
  };
  maybe(request.max_tokens, static_cast<std::uint32_t>(random()));
  maybe(request.min_tokens, static_cast<std::uint32_t>(random() % 300));
  maybe(request.ignore_eos, random() % 2 == 0);
  maybe(request.dp_rank, static_cast<std::uint32_t>(random() % 8));
  maybe(request.backend_instance_id, std::uint64_t{random()} << random() % 33);
  maybe(request.bootstrap_info, BootstrapInfo{"h", 7, std::uint64_t{random()} << 31, std::nullopt});
  if (request.bootstrap_info) {
    maybe(request.bootstrap_info->handoff_id, Uuid{random(), random()});
  }
  maybe(request.request_timestamp_ms, static_cast<double>(random()) / 7);
  maybe(request.annotations, std::vector<std::string>{"x", ""});
  request.health_check = random() % 2 == 0;
  return request;
}

TEST_P(RequestBody, GivesBackWhatWasEncoded) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const PreprocessedRequest sent = Sample(random);
    const auto got = DecodeRequest(GetParam(), EncodeRequest(GetParam(), sent), DecodeLimits{});
    ASSERT_TRUE(got.has_value()) << "seed " << seed << ": " << got.error().message;
    EXPECT_EQ(got->model, sent.model) << seed;
    EXPECT_EQ(got->token_ids, sent.token_ids) << seed;
    EXPECT_EQ(got->max_tokens, sent.max_tokens) << seed;
    EXPECT_EQ(got->min_tokens, sent.min_tokens) << seed;
    EXPECT_EQ(got->ignore_eos, sent.ignore_eos) << seed;
    EXPECT_EQ(got->annotations, sent.annotations) << seed;
    EXPECT_EQ(got->dp_rank, sent.dp_rank) << seed;
    EXPECT_EQ(got->backend_instance_id, sent.backend_instance_id) << seed;
    EXPECT_EQ(got->bootstrap_info, sent.bootstrap_info) << seed;
    EXPECT_EQ(got->request_timestamp_ms, sent.request_timestamp_ms) << seed;
    EXPECT_EQ(got->health_check, sent.health_check) << seed;
  }
}

TEST_P(RequestBody, EncodesAMapThatAnotherLibraryReads) {
  PreprocessedRequest request;
  request.model = "tiny";
  request.token_ids = {1, 200, 70000};
  request.max_tokens = 5;
  const std::string bytes = EncodeRequest(GetParam(), request);
  const Json read =
      GetParam() == PayloadCodec::kJson ? Json::parse(bytes) : Json::from_msgpack(bytes);
  EXPECT_EQ(read,
            (Json{{"model", "tiny"},
                  {"token_ids", {1, 200, 70000}},
                  {"stop_conditions", {{"max_tokens", 5}}},
                  {"sampling_options", Json::object()},
                  {"output_options", Json::object()},
                  {"eos_token_ids", Json::array()},
                  {"annotations", Json::array()}}));
}

}  // namespace
}  // namespace understudy::transport
