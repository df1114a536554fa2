// What DecodeRequest refuses, and the text the client gets.
#include "understudy/transport/codec.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::string_literals;

std::string Bytes(PayloadCodec codec, const Json& value) {
  if (codec == PayloadCodec::kJson) {
    return value.dump();
  }
  const auto packed = Json::to_msgpack(value);
  return {packed.begin(), packed.end()};
}

std::string RefusalOfBytes(PayloadCodec codec,
                           const std::string& bytes,
                           Errc code = Errc::kMalformed,
                           const DecodeLimits& limits = {}) {
  const auto request = DecodeRequest(codec, bytes, limits);
  if (request) {
    return "accepted";
  }
  EXPECT_EQ(request.error().code, code) << request.error().message;
  return request.error().message;
}

class BadRequest : public ::testing::TestWithParam<PayloadCodec> {
 protected:
  static std::string Refusal(const Json& value,
                             Errc code = Errc::kMalformed,
                             const DecodeLimits& limits = {}) {
    return RefusalOfBytes(GetParam(), Bytes(GetParam(), value), code, limits);
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs,
                         BadRequest,
                         ::testing::Values(PayloadCodec::kJson, PayloadCodec::kMsgpack));

TEST_P(BadRequest, NotAnObject) {
  EXPECT_EQ(Refusal(Json::array()), "request body: not an object");
  EXPECT_EQ(Refusal("text"), "request body: not an object");
  EXPECT_EQ(Refusal(nullptr), "request body: not an object");
}

TEST_P(BadRequest, NothingAtAll) {
  EXPECT_NE(RefusalOfBytes(GetParam(), ""), "accepted");
}

TEST_P(BadRequest, EveryTruncation) {
  const std::string whole = Bytes(GetParam(),
                                  {{"model", "tiny"},
                                   {"token_ids", {1, 70000, 3}},
                                   {"stop_conditions", {{"max_tokens", 5}}},
                                   {"x", {1.5, "text", nullptr, true}}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(RefusalOfBytes(GetParam(), whole.substr(0, size)), "accepted") << size;
  }
}

TEST_P(BadRequest, BytesAfterTheValue) {
  EXPECT_NE(RefusalOfBytes(GetParam(), Bytes(GetParam(), {{"token_ids", {1}}}) + "1"), "accepted");
  EXPECT_NE(RefusalOfBytes(GetParam(), Bytes(GetParam(), {{"token_ids", {1}}}) + "\0"s),
            "accepted");
}

TEST_P(BadRequest, TokensMissing) {
  EXPECT_EQ(Refusal({{"model", "m"}}), "request body: token_ids: missing");
  EXPECT_EQ(Refusal({{"token_ids", nullptr}}), "request body: token_ids: not an array of integers");
}

TEST_P(BadRequest, TokenThatIsNoUnsigned32BitInteger) {
  constexpr const char* kText = "request body: token_ids[1]: not an unsigned 32-bit integer";
  for (const Json& bad : {Json(4294967296U),
                          Json(-1),
                          Json(1.5),
                          Json(1e300),
                          Json("2"),
                          Json(nullptr),
                          Json(true),
                          Json::array({1})}) {
    EXPECT_EQ(Refusal({{"token_ids", {1, bad}}}), kText) << bad;
  }
}

TEST_P(BadRequest, NumberBeyond32Bits) {
  EXPECT_EQ(Refusal({{"token_ids", {1}}, {"stop_conditions", {{"max_tokens", 4294967296U}}}}),
            "request body: stop_conditions.max_tokens: 4294967296 does not fit into 32 bits");
  EXPECT_EQ(Refusal({{"token_ids", {1}}, {"routing", {{"dp_rank", 1ULL << 40U}}}}),
            "request body: routing.dp_rank: 1099511627776 does not fit into 32 bits");
  EXPECT_EQ(Refusal({{"token_ids", {1}}, {"stop_conditions", {{"max_tokens", -5}}}}),
            "request body: stop_conditions.max_tokens: not an unsigned integer");
}

TEST_P(BadRequest, FieldOfWrongTypeIsNamed) {
  const auto with = [](const char* key, const Json& value) {
    return Json{{"token_ids", {1}}, {key, value}};
  };
  EXPECT_EQ(Refusal(with("model", 5)), "request body: model: not a string");
  EXPECT_EQ(Refusal(with("stop_conditions", 5)), "request body: stop_conditions: not an object");
  EXPECT_EQ(Refusal(with("stop_conditions", {{"ignore_eos", 1}})),
            "request body: stop_conditions.ignore_eos: not true or false");
  EXPECT_EQ(Refusal(with("stop_conditions", {{"max_tokens", "3"}})),
            "request body: stop_conditions.max_tokens: not an unsigned integer");
  EXPECT_EQ(Refusal(with("annotations", "a")),
            "request body: annotations: not an array of strings");
  EXPECT_EQ(Refusal(with("annotations", {1})), "request body: annotations: not a string");
  EXPECT_EQ(Refusal(with("routing", Json::array())), "request body: routing: not an object");
  EXPECT_EQ(Refusal(with("bootstrap_info", true)), "request body: bootstrap_info: not an object");
  EXPECT_EQ(Refusal(with("bootstrap_info", {{"handoff_id", 1}})),
            "request body: bootstrap_info.handoff_id: not a UUID");
  EXPECT_EQ(Refusal(with("bootstrap_info", {{"handoff_id", "6f0c1a9e"}})),
            "request body: bootstrap_info.handoff_id: not a UUID");
  EXPECT_EQ(Refusal(with("bootstrap_info", {{"bootstrap_port", 65536}})),
            "request body: bootstrap_info.bootstrap_port: not a port");
  EXPECT_EQ(Refusal(with("bootstrap_info", {{"bootstrap_room", -1}})),
            "request body: bootstrap_info.bootstrap_room: not an unsigned integer");
  EXPECT_EQ(Refusal(with("bootstrap_info", {{"bootstrap_host", "h"}, {"bootstrap_port", 1}})),
            "request body: bootstrap_info.bootstrap_room: missing");
  EXPECT_EQ(Refusal(with("request_timestamp_ms", "now")),
            "request body: request_timestamp_ms: not a number");
  EXPECT_EQ(Refusal(with("_HEALTH_CHECK", 1)), "request body: _HEALTH_CHECK: not true or false");
  EXPECT_EQ(RefusalOfBytes(GetParam(), Bytes(GetParam(), {{"token_ids", {{"a", 1}}}})),
            "request body: token_ids: not an array of integers");
}

TEST_P(BadRequest, MoreTokensThanTheLimit) {
  DecodeLimits limits;
  limits.prompt_tokens_max = 3;
  EXPECT_EQ(Refusal({{"token_ids", {1, 2, 3, 4}}}, Errc::kUnsupported, limits),
            "request body: token_ids: more than 3 tokens");
  EXPECT_EQ(Refusal({{"token_ids", {1, 2, 3}}}, Errc::kUnsupported, limits), "accepted");
}

TEST_P(BadRequest, BodyOverTheLimit) {
  DecodeLimits limits;
  limits.body_bytes_max = 10;
  EXPECT_NE(Refusal({{"token_ids", {1, 2, 3}}}, Errc::kUnsupported, limits).find("limit 10"),
            std::string::npos);
}

/// `levels` arrays and maps in each other, the outermost one being the body.
Json Nested(std::size_t levels) {
  Json value = 1;
  for (std::size_t i = 1; i < levels; ++i) {
    value = i % 2 == 0 ? Json{{"k", value}} : Json::array({value});
  }
  return {{"token_ids", {1}}, {"x", value}};
}

TEST_P(BadRequest, NestedDeeperThanTheLimit) {
  DecodeLimits limits;
  limits.nesting_max = 8;
  EXPECT_EQ(Refusal(Nested(8), Errc::kMalformed, limits), "accepted");
  EXPECT_NE(Refusal(Nested(9), Errc::kMalformed, limits).find("nested"), std::string::npos);
  EXPECT_EQ(Refusal(Nested(64)), "accepted");
  EXPECT_NE(Refusal(Nested(65)).find("nested"), std::string::npos);
}

TEST(BadJsonRequest, MillionBrackets) {
  const std::string deep = R"({"x":)" + std::string(1000000, '[');
  EXPECT_NE(RefusalOfBytes(PayloadCodec::kJson, deep).find("request body"), std::string::npos);
}

TEST(BadMsgpackRequest, MillionArrays) {
  const std::string deep = "\x81\xa1x" + std::string(1000000, '\x91');
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, deep),
            "request body: not msgpack: nested too deep");
}

TEST_P(BadRequest, KnownKeyGivenTwice) {
  const bool json = GetParam() == PayloadCodec::kJson;
  const std::string twice = json ? R"({"token_ids":[1],"token_ids":[1]})"
                                 : "\x82\xa9token_ids\x91\x01\xa9token_ids\x91\x01"s;
  EXPECT_EQ(RefusalOfBytes(GetParam(), twice), "request body: token_ids: given twice");
}

TEST(BadJsonRequest, NotUtf8) {
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kJson, "{\"token_ids\":[1],\"model\":\"\xc3\x28\"}"),
            "request body: not UTF-8");
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kJson, "{\"token_ids\":[1],\"x\":\"\xed\xa0\x80\"}"),
            "request body: not UTF-8");
}

TEST(BadMsgpackRequest, NotUtf8) {
  const std::string start = "\x82\xa9token_ids\x91\x01"s;
  const std::string model = start + "\xa5model\xa2\xc3\x28";
  const std::string unknown = start + "\xa1x\x91\xa1\xff";
  const std::string key = start + "\xa1\xff\x01";
  for (const std::string& bytes : {model, unknown, key}) {
    EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, bytes),
              "request body: not msgpack: a string is not UTF-8");
  }
}

TEST(BadMsgpackRequest, DeclaresMoreThanIsThere) {
  // Array of 2^32 - 1 tokens, string of 2^32 - 1 bytes, map of 2^32 - 1 members: nothing may be
  // allocated for them.
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, "\x81\xa9token_ids\xdd\xff\xff\xff\xff\x01"s),
            "request body: not msgpack: declares more items than bytes are left");
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack,
                           "\x81\xa5model\xdb\xff\xff\xff\xff"s
                           "abc"),
            "request body: not msgpack: ends inside a value");
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, "\xdf\xff\xff\xff\xff\xa1x"s),
            "request body: not msgpack: declares more items than bytes are left");
}

TEST(BadMsgpackRequest, PositionalFormIsRefused) {
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, "\x92\xa4tiny\x91\x01"s),
            "request body: not an object");
}

TEST(BadMsgpackRequest, KeysThatAreNoStrings) {
  EXPECT_EQ(RefusalOfBytes(PayloadCodec::kMsgpack, "\x81\x01\x02"s),
            "request body: not msgpack: map key is not a string");
}

TEST(BadJsonRequest, OtherTextsThanStrictJson) {
  for (const char* text : {R"({"token_ids":[1,]})",
                           R"({"token_ids":[01]})",
                           R"({'token_ids':[1]})",
                           R"({"token_ids":[1]} {"token_ids":[1]})",
                           R"({"token_ids":[NaN]})",
                           R"({"token_ids":[1],"x":tru})",
                           R"({"token_ids":[1],"x":"\q"})",
                           R"({"token_ids":[99999999999999999999999]})"}) {
    EXPECT_NE(RefusalOfBytes(PayloadCodec::kJson, text), "accepted") << text;
  }
}

}  // namespace
}  // namespace understudy::transport
