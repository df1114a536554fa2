// Records of event channels and sources as the real workers wrote them, and as one worker for both
// releases writes them: vectors/events/discovery_records.json,
// vectors/wire/both_profiles_records.json and etcd_*.json.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/event_records.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

struct Written {
  std::string key;
  Json value;
};

/// Every record of the vectors, whatever it is of.
std::vector<Written> AllRecords() {
  std::vector<Written> all;
  for (const Json& record : Load("events/discovery_records.json")) {
    all.push_back({record["key"], record["value"]});
  }
  const Json both = Load("wire/both_profiles_records.json");
  for (const char* plane : {"nats_event_plane", "zmq_event_plane"}) {
    for (const Json& record : both[plane]) {
      all.push_back({record["key"], record["value"]});
    }
  }
  for (const char* release : {"etcd_1.3.0_", "etcd_1.6.1_"}) {
    for (const std::string& file : WireFiles(release)) {
      const Json vector = Load(file);
      for (const Json& record : vector["records"]) {
        all.push_back({record["key"], Json::parse(record["value_text"].get<std::string>())});
      }
    }
  }
  return all;
}

TEST(GoldenEventRecords, ChannelsDecodeAndReencodeToTheSameText) {
  std::size_t channels = 0;
  for (const Written& record : AllRecords()) {
    if (!record.value.is_object() || record.value["type"] != "EventChannel") {
      continue;
    }
    const auto decoded = DecodeEventChannel(record.value.dump());
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    const Record again = EncodeEventChannel(decoded->channel, decoded->transport);
    EXPECT_EQ(again.key, record.key);
    EXPECT_EQ(again.value, record.value.dump());
    if (decoded->transport.kind == EventTransport::Kind::kNats) {
      EXPECT_EQ(SubjectPrefix(decoded->channel), decoded->transport.address);
    }
    ++channels;
  }
  EXPECT_GT(channels, 30U);
}

TEST(GoldenEventRecords, SourcesAreWrittenToTheSameText) {
  std::size_t sources = 0;
  for (const Written& record : AllRecords()) {
    if (!record.value.is_object() || record.value["type"] != "EventSource") {
      continue;
    }
    const Json& metadata = record.value["metadata"];
    const Json& place = metadata["kv_state_endpoint"];
    EventSource source;
    source.channel = {EventScope::kEndpoint,
                      {place["namespace"], place["component"], place["name"]},
                      record.value["topic"],
                      record.value["publisher_id"]};
    source.worker_id = metadata["worker"]["worker_id"];
    source.dp_rank = metadata["worker"]["dp_rank"];
    Json target = metadata["recovery_target"];
    target["type"] = "Endpoint";
    auto instance = DecodeInstance(target.dump());
    ASSERT_TRUE(instance.has_value()) << instance.error().message;
    source.recovery_target = *instance;
    const Record again = EncodeEventSource(source);
    EXPECT_EQ(again.key, record.key);
    EXPECT_EQ(again.value, record.value.dump());
    ++sources;
  }
  EXPECT_GT(sources, 5U);
}

TEST(EventSubjects, EscapeWhatSubjectsCannotHoldOnlyIn16) {
  EventChannel channel{EventScope::kEndpoint, {"my.ns", "backend", "gen erate"}, "kv-events", 1};
  EXPECT_EQ(EventSubject(channel),
            "namespace.my%2Ens.component.backend.endpoint.gen%20erate.kv-events");
  channel.scope = EventScope::kNamespace;
  EXPECT_EQ(EventSubject(channel), "namespace.my.ns.kv-events");
}

TEST(EventChannelRecord, RefusesWhatItCannotReach) {
  const auto refusal = [](const std::string& json) {
    const auto record = DecodeEventChannel(json);
    return record ? std::string("accepted") : record.error().message;
  };
  EXPECT_EQ(refusal("[]"), "event channel record: not an object");
  EXPECT_EQ(refusal(R"({"type":"Endpoint"})"),
            "event channel record: type: 'Endpoint' is not 'EventChannel'");
  EXPECT_EQ(refusal(R"({"type":"EventChannel","topic":"t","instance_id":1})"),
            "event channel record: transport: missing");
  EXPECT_EQ(
      refusal(
          R"({"type":"EventChannel","topic":"t","instance_id":1,"transport":{"kind":"Pigeon","config":{}}})"),
      "event channel record: transport.kind: 'Pigeon' (known: Nats, Zmq, ZmqBroker)");
  EXPECT_EQ(
      refusal(
          R"({"type":"EventChannel","topic":"t","instance_id":1,"transport":{"kind":"Zmq","config":{}}})"),
      "event channel record: transport.config: has no address");
  const auto broker = [&](const std::string& config) {
    return refusal(
        R"({"type":"EventChannel","topic":"t","instance_id":1,"transport":{"kind":"ZmqBroker","config":)" +
        config + "}}");
  };
  EXPECT_EQ(broker(R"({"xsub_endpoints":["tcp://a:1"],"xpub_endpoints":[]})"),
            "event channel record: transport.config: has no address");
  EXPECT_EQ(broker(R"({"xsub_endpoints":["tcp://a:1"],"xpub_endpoints":[2]})"),
            "event channel record: xpub_endpoints: not a string");
  EXPECT_EQ(broker(R"({"xsub_endpoints":"tcp://a:1"})"),
            "event channel record: xsub_endpoints: not an array of strings");
}

TEST(EventChannelRecord, OfABrokerNamesBothItsSides) {
  const EventChannel place{EventScope::kComponent, {"ns", "zmq_broker", ""}, "events", 7};
  const Record record = EncodeEventChannel(place,
                                           {.kind = EventTransport::Kind::kZmqBroker,
                                            .xsub = {"tcp://a:1", "tcp://b:1"},
                                            .xpub = {"tcp://a:2"}});
  EXPECT_EQ(record.key, "v1/event_channels/ns/zmq_broker/events/7");
  EXPECT_EQ(
      record.value,
      R"({"type":"EventChannel","namespace":"ns","component":"zmq_broker","topic":"events","instance_id":7,)"
      R"("transport":{"kind":"ZmqBroker","config":{"xsub_endpoints":["tcp://a:1","tcp://b:1"],)"
      R"("xpub_endpoints":["tcp://a:2"]}}})");
  const auto again = DecodeEventChannel(record.value);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->transport.xsub, (std::vector<std::string>{"tcp://a:1", "tcp://b:1"}));
  EXPECT_EQ(again->transport.xpub, std::vector<std::string>{"tcp://a:2"});
}

}  // namespace
}  // namespace understudy::transport::golden
