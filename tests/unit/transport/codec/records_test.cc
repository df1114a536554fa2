#include "understudy/transport/records.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::ordered_json;

Json Instance() {
  return {{"type", "Endpoint"},
          {"component", "backend"},
          {"endpoint", "generate"},
          {"namespace", "dynamo"},
          {"instance_id", 18446744073709551615U},
          {"transport", {{"tcp", "[::1]:8108/a/b"}}}};
}

std::string Refusal(const Json& value) {
  const auto instance = DecodeInstance(value.dump());
  if (instance) {
    return "accepted";
  }
  EXPECT_EQ(instance.error().code, Errc::kMalformed);
  return instance.error().message;
}

TEST(InstanceRecord, GivesBackWhatWasEncoded) {
  InstanceRecord sent;
  sent.name = {"ns", "comp", "end"};
  sent.instance_id = 0xff;
  sent.transport_value = "ns_comp.end-ff";
  sent.device_type = "cpu";
  sent.request_plane_codec = "msgpack";
  const Record record = EncodeInstance(sent);
  EXPECT_EQ(record.key, "v1/instances/ns/comp/end/ff");
  const auto got = DecodeInstance(record.value);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->name.Dotted(), "ns.comp.end");
  EXPECT_EQ(got->instance_id, 0xffU);
  EXPECT_EQ(got->transport_kind, "nats_tcp");
  EXPECT_EQ(got->transport_value, "ns_comp.end-ff");
  EXPECT_EQ(got->device_type, "cpu");
  EXPECT_EQ(got->request_plane_codec, "msgpack");
}

TEST(InstanceRecord, OptionalFieldsMayBeMissingAndUnknownOnesPresent) {
  Json value = Instance();
  value["later"] = {{"x", 1}};
  const auto got = DecodeInstance(value.dump());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->transport_kind, "tcp");
  EXPECT_EQ(got->instance_id, 18446744073709551615U);
  EXPECT_FALSE(got->device_type.has_value());
}

TEST(InstanceRecord, NamesMissingField) {
  for (const char* key : {"component", "endpoint", "namespace", "instance_id", "transport"}) {
    Json value = Instance();
    value.erase(key);
    EXPECT_EQ(Refusal(value), std::string("instance record: ") + key + ": missing");
  }
}

TEST(InstanceRecord, RefusesOtherRecordsAndBadValues) {
  EXPECT_EQ(Refusal(Json::array()), "instance record: not an object");
  Json value = Instance();
  value["type"] = "Model";
  EXPECT_EQ(Refusal(value), "instance record: type: 'Model' is not 'Endpoint'");
  value = Instance();
  value["instance_id"] = "7";
  EXPECT_EQ(Refusal(value), "instance record: instance_id: not an unsigned integer");
  value = Instance();
  value["transport"] = Json::object();
  EXPECT_EQ(Refusal(value), "instance record: transport: needs exactly one address");
  value["transport"] = {{"tcp", 5}};
  EXPECT_EQ(Refusal(value), "instance record: transport.tcp: not a string");
  EXPECT_FALSE(DecodeInstance(R"({"type":"Endpoint")").has_value());
  EXPECT_FALSE(DecodeInstance("\xff").has_value());
}

}  // namespace
}  // namespace understudy::transport
