#include "worker/request_path/service_info.h"

#include "tests/fakes/fake_nats.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;

/// The replies of a real worker process with endpoints (vectors/wire/nats_service.json,
/// release 1.3.0.post1), by verb.
std::map<std::string, Json> CapturedReplies() {
  std::ifstream file(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/wire/nats_service.json");
  const auto vectors = Json::parse(file);
  std::map<std::string, Json> replies;
  for (const auto& entry : vectors["replies"]["1.3.0.post1"]) {
    const auto& reply = entry["reply"];
    if (entry["verb"] == "PING" || !reply["endpoints"].empty()) {
      replies[entry["verb"]] = reply;
    }
  }
  return replies;
}

TEST(ServiceInfo, RepliesHaveTheCapturedShape) {
  for (const auto& [verb, captured] : CapturedReplies()) {
    ServiceIdentity identity{
        "dynamo", "backend", "1.3.0+post1", captured["id"], captured.value("started", "")};
    std::vector<EndpointCounts> endpoints;
    for (const auto& endpoint : captured.value("endpoints", Json::array())) {
      endpoints.push_back({endpoint["subject"],
                           endpoint.value("num_requests", 0U),
                           endpoint.value("num_errors", 0U),
                           endpoint.value("processing_time", 0U)});
    }
    EXPECT_EQ(ServiceReply(verb, identity, endpoints), captured.dump()) << verb;
  }
}

TEST(ServiceInfo, ListensOnThreeLevelsOfEachVerb) {
  fakes::FakeNats nats;
  const auto identity = NewServiceIdentity("dynamo", "backend", "1.3.0+post1");
  EXPECT_EQ(identity.id.size(), 22U);
  ServeServiceInfo(nats, identity, [] { return std::vector<EndpointCounts>{{"s.e-1", 3, 1, 30}}; });
  EXPECT_EQ(nats.subjects().size(), 9U);
  EXPECT_EQ(nats.Deliver("$SRV.STATS.dynamo_backend." + identity.id, "", "inbox"), 1);
  ASSERT_EQ(nats.published.size(), 1U);
  EXPECT_EQ(nats.published[0].subject, "inbox");
  EXPECT_EQ(Json::parse(nats.published[0].payload)["endpoints"][0]["average_processing_time"], 10);
  EXPECT_EQ(nats.Deliver("$SRV.PING", "", ""), 1);  // nobody to answer
  EXPECT_EQ(nats.published.size(), 1U);
}

}  // namespace
}  // namespace understudy::worker
