#include "worker/registration/registration.h"

#include <set>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

WorkerConfig Config(std::uint32_t workers) {
  WorkerConfig config;
  config.endpoint = {"dynamo", "backend", "generate"};
  config.workers = workers;
  config.block_size = 64;
  config.device_type = "cuda";
  return config;
}

TEST(Registration, OneWorkerIsNamedByItsLease) {
  const auto workers = MakeIdentities(Config(1), 0x694da22b5f88f105);
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers[0].instance_id, 0x694da22b5f88f105U);
  EXPECT_EQ(workers[0].subject, "dynamo_backend.generate-694da22b5f88f105");
  EXPECT_EQ(RequestSubject(workers), workers[0].subject);
}

TEST(Registration, ManyWorkersShareOneSubscription) {
  const auto workers = MakeIdentities(Config(50), 1);
  ASSERT_EQ(workers.size(), 50U);
  const auto wildcard = RequestSubject(workers);
  ASSERT_TRUE(wildcard.ends_with(".*"));
  std::set<std::uint64_t> ids;
  for (const auto& worker : workers) {
    ids.insert(worker.instance_id);
    EXPECT_EQ(worker.instance_id >> 63, 0U);
    const auto prefix = wildcard.substr(0, wildcard.size() - 1);
    EXPECT_EQ(worker.subject, prefix + "generate-" + transport::HexId(worker.instance_id));
  }
  EXPECT_EQ(ids.size(), 50U);
}

TEST(Registration, CardsComeBeforeInstances) {
  const auto config = Config(2);
  const auto profile = MakeReleaseProfile("1.3", config.endpoint, 0xdca14623a171b98c);
  ASSERT_TRUE(profile);
  const auto card = MakeCard(config);
  ASSERT_TRUE(card);
  const auto registration = MakeRegistration(config, *profile, *card, MakeIdentities(config, 1));
  ASSERT_EQ(registration.records.size(), 5U);
  EXPECT_EQ(registration.records[0].key, "v1/event_channels/dynamo//kv_metrics/dca14623a171b98c");
  EXPECT_TRUE(registration.records[1].key.starts_with("v1/mdc/dynamo/backend/generate/"));
  EXPECT_TRUE(registration.records[2].key.starts_with("v1/mdc/"));
  EXPECT_TRUE(registration.records[3].key.starts_with("v1/instances/dynamo/backend/generate/"));
  ASSERT_EQ(registration.instance_keys.size(), 2U);
  EXPECT_EQ(registration.instance_keys[1], registration.records[4].key);
}

TEST(Registration, AWorkerWithoutAModelIsNamedAsTheReferenceNamesIt) {
  const auto card = MakeCard(Config(1));
  ASSERT_TRUE(card);
  EXPECT_EQ(card->display_name, "dynamo");
  EXPECT_FALSE(card->config.has_value());
}

TEST(Registration, AMissingModelFolderIsNamed) {
  auto config = Config(1);
  config.options.model_path = "/nonexistent/model";
  const auto card = MakeCard(config);
  ASSERT_FALSE(card);
  EXPECT_EQ(card.error().code, Errc::kInvalidConfig);
  EXPECT_NE(card.error().message.find("/nonexistent/model"), std::string::npos);
}

}  // namespace
}  // namespace understudy::worker
