#include "understudy/transport/codec.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

Json Info() {
  return {{"address", "::1:8107"},
          {"subject", "subject-1"},
          {"context", "id-1"},
          {"stream_type", "response"}};
}

Json Header() {
  return {{"id", "id-1"},
          {"request_type", "single_in"},
          {"response_type", "many_out"},
          {"payload_codec", "json"},
          {"connection_info", {{"transport", "tcp_server"}, {"info", Info().dump()}}}};
}

std::string WithInfo(const Json& info) {
  Json header = Header();
  header["connection_info"]["info"] = info.dump();
  return header.dump();
}

std::string Refusal(const std::string& header) {
  const auto control = ParseRequestControl(header);
  if (control) {
    return "accepted";
  }
  EXPECT_EQ(control.error().code, Errc::kMalformed);
  return control.error().message;
}

TEST(RequestControl, ReadsWhereToAnswer) {
  const auto control = ParseRequestControl(Header().dump());
  ASSERT_TRUE(control.has_value()) << control.error().message;
  EXPECT_EQ(control->id, "id-1");
  EXPECT_EQ(control->address, "::1:8107");
  EXPECT_EQ(control->subject, "subject-1");
  EXPECT_EQ(control->context, "id-1");
  EXPECT_EQ(control->transport, "tcp_server");
  EXPECT_EQ(control->response_type, "many_out");
  EXPECT_EQ(control->stream_type, "response");
  EXPECT_EQ(control->codec, PayloadCodec::kJson);
  EXPECT_FALSE(control->unknown_codec.has_value());
}

TEST(RequestControl, CodecIsJsonWhenMissingOrNull) {
  Json header = Header();
  header.erase("payload_codec");
  EXPECT_EQ(ParseRequestControl(header.dump())->codec, PayloadCodec::kJson);
  header["payload_codec"] = nullptr;
  EXPECT_EQ(ParseRequestControl(header.dump())->codec, PayloadCodec::kJson);
}

TEST(RequestControl, KeepsNameOfUnknownCodecSoThatThePeerCanBeAnswered) {
  Json header = Header();
  header["payload_codec"] = "cbor";
  const auto control = ParseRequestControl(header.dump());
  ASSERT_TRUE(control.has_value());
  EXPECT_EQ(control->unknown_codec, "cbor");
  EXPECT_EQ(control->codec, PayloadCodec::kJson);
}

TEST(RequestControl, SkipsWhatItDoesNotKnow) {
  Json header = Header();
  header["metadata"] = {{"x", "y"}};
  header["frontend_send_ts_ns"] = 17;
  EXPECT_TRUE(ParseRequestControl(header.dump()).has_value());
}

TEST(RequestControl, LeavesInfoOfOtherTransportsAlone) {
  Json header = Header();
  header["connection_info"] = {{"transport", "quic-response"}, {"info", "opaque"}};
  const auto control = ParseRequestControl(header.dump());
  ASSERT_TRUE(control.has_value());
  EXPECT_EQ(control->transport, "quic-response");
  EXPECT_TRUE(control->address.empty());
}

TEST(RequestControl, EncodesWhatItReads) {
  RequestControl control = *ParseRequestControl(Header().dump());
  control.codec = PayloadCodec::kMsgpack;
  const auto again = ParseRequestControl(EncodeRequestControl(control));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->codec, PayloadCodec::kMsgpack);
  EXPECT_EQ(again->subject, control.subject);
  EXPECT_EQ(again->address, control.address);
}

TEST(RequestControl, RefusesWhatIsNoJsonObject) {
  EXPECT_NE(Refusal("").find("not JSON"), std::string::npos);
  EXPECT_NE(Refusal(R"({"id":"a")").find("not JSON"), std::string::npos);
  EXPECT_EQ(Refusal("[]"), "control header: not an object");
  EXPECT_EQ(Refusal("{\"id\":\"\xff\"}"), "control header: not UTF-8");
}

TEST(RequestControl, NamesMissingField) {
  for (const char* key : {"id", "connection_info"}) {
    Json header = Header();
    header.erase(key);
    EXPECT_EQ(Refusal(header.dump()), std::string("control header: ") + key + ": missing");
  }
  for (const char* key : {"address", "subject", "context", "stream_type"}) {
    Json info = Info();
    info.erase(key);
    EXPECT_EQ(Refusal(WithInfo(info)),
              std::string("control header: connection_info.info: ") + key + ": missing");
  }
}

TEST(RequestControl, NamesFieldOfWrongType) {
  Json header = Header();
  header["id"] = 5;
  EXPECT_EQ(Refusal(header.dump()), "control header: id: not a string");
  header = Header();
  header["payload_codec"] = 1;
  EXPECT_EQ(Refusal(header.dump()), "control header: payload_codec: not a string");
  header = Header();
  header["connection_info"]["info"] = Info();  // must be JSON inside a string
  EXPECT_EQ(Refusal(header.dump()), "control header: connection_info.info: not a string");
}

TEST(RequestControl, RefusesContextOfAnotherRequest) {
  Json info = Info();
  info["context"] = "id-2";
  EXPECT_EQ(Refusal(WithInfo(info)),
            "control header: connection_info.info: context: differs from the id of the request");
}

TEST(RequestControl, RefusesStreamThatIsNotAResponse) {
  Json info = Info();
  info["stream_type"] = "request";
  EXPECT_EQ(Refusal(WithInfo(info)),
            "control header: connection_info.info: stream_type: 'request' is not 'response'");
}

TEST(RequestControl, RefusesKeyGivenTwice) {
  std::string header = Header().dump();
  header.insert(1, R"("id":"other",)");
  EXPECT_EQ(Refusal(header), "control header: id: given twice");
}

TEST(RequestControl, RefusesHeaderOverTheLimit) {
  Json header = Header();
  header["padding"] = std::string(kControlHeaderBytesMax, 'x');
  EXPECT_NE(Refusal(header.dump()).find("limit 131072"), std::string::npos);
}

TEST(RequestControl, RefusesDeepNesting) {
  std::string header = Header().dump();
  header.insert(1, R"("x":)" + std::string(500, '[') + std::string(500, ']') + ",");
  EXPECT_EQ(Refusal(header), "control header: nested deeper than 16 levels");
}

}  // namespace
}  // namespace understudy::transport
