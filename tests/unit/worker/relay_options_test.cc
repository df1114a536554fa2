#include "worker/relay/follower.h"
#include "worker/relay/options.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

const Environment kNone = [](const char*) -> std::optional<std::string> { return std::nullopt; };

RelayFlags Flags() {
  RelayFlags flags;
  flags.discovery_backend = "etcd";
  flags.event_plane = "nats";
  flags.zmq_endpoint = "tcp://*:5557";
  return flags;
}

TEST(RelayOptions, FollowTheOnlyInstanceOfTheDefaultEndpoint) {
  const auto plan = MakeRelayPlan(Flags(), kNone);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->endpoint.Dotted(), "dynamo.backend.generate");
  ASSERT_EQ(plan->engines.size(), 1U);
  EXPECT_EQ(plan->engines[0].events, "tcp://127.0.0.1:5557") << "engines bind to any address";
  EXPECT_FALSE(plan->engines[0].worker_id.has_value());
  EXPECT_TRUE(plan->follow);
  EXPECT_FALSE(plan->block_size.has_value());
  EXPECT_EQ(plan->profile.wires.size(), 2U);
}

TEST(RelayOptions, ListsBelongTogetherByTheirPlace) {
  auto flags = Flags();
  flags.zmq_endpoint = "tcp://a:5557,tcp://b:5557";
  flags.zmq_replay_endpoint = "tcp://a:5657,tcp://b:5657";
  flags.instance_id = "1f,2e";
  const auto plan = MakeRelayPlan(flags, kNone);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->engines[1].events, "tcp://b:5557");
  EXPECT_EQ(plan->engines[1].replay, "tcp://b:5657");
  EXPECT_EQ(plan->engines[1].worker_id, 0x2eU);
}

TEST(RelayOptions, RanksAreAddedToThePort) {
  EXPECT_EQ(EndpointOfRank("tcp://a:5557", 3).value(), "tcp://a:5560");
  EXPECT_EQ(EndpointOfRank("tcp://[::1]:5557", 1).value(), "tcp://[::1]:5558");
  EXPECT_EQ(EndpointOfRank("ipc:///tmp/x", 0).value(), "ipc:///tmp/x");
  EXPECT_EQ(EndpointOfRank("ipc:///tmp/x", 1).error().message,
            "'ipc:///tmp/x' has no port to which rank 1 could be added");
  EXPECT_EQ(EndpointOfRank("tcp://a:65535", 1).error().message,
            "'tcp://a:65535' + rank 1 is beyond port 65535");
}

TEST(RelayOptions, RefuseNumbersThatCannotBe) {
  auto flags = Flags();
  flags.data_parallel_size = 5000;
  EXPECT_EQ(MakeRelayPlan(flags, kNone).error().message,
            "--data-parallel-size must be between 1 and 4096, got 5000");
  flags = Flags();
  flags.zmq_endpoint = "tcp://a:0";
  EXPECT_NE(MakeRelayPlan(flags, kNone).error().message.find("--zmq-endpoint 'tcp://a:0'"),
            std::string::npos);
  flags = Flags();
  flags.follow = false;
  flags.instance_id = "1";
  EXPECT_EQ(MakeRelayPlan(flags, kNone).error().message,
            "--no-follow needs --block-size: no model card is read");
}

transport::Record Instance(std::uint64_t id) {
  transport::InstanceRecord record;
  record.name = {"ns", "backend", "generate"};
  record.instance_id = id;
  record.transport_value = "subject";
  return transport::EncodeInstance(record);
}

TEST(JoinInstances, ReadsWhatTheCardsSayOfTheCaches) {
  const std::vector<transport::Record> models = {
      {"v1/mdc/ns/backend/generate/2a",
       R"({"card_json":{"kv_cache_block_size":16,
           "runtime_config":{"data_parallel_size":4,"data_parallel_start_rank":8}}})"},
      {"v1/mdc/ns/backend/generate/2a/lora", R"({"card_json":{"kv_cache_block_size":99}})"},
      {"v1/mdc/ns/backend/generate/2b", R"({"card_json":{"kv_cache_block_size":0}})"},
      {"v1/mdc/ns/backend/generate/2c", "no JSON"}};
  const auto seen = JoinInstances(
      {Instance(0x2d), Instance(0x2b), Instance(0x2a), Instance(0x2c), {"v1/x", "broken"}}, models);
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0], (SeenInstance{0x2a, true, 16, 8, 4}));
  EXPECT_EQ(seen[1], (SeenInstance{0x2b, true, {}, {}, {}}));
  EXPECT_EQ(seen[2], (SeenInstance{0x2c, false, {}, {}, {}}));
  EXPECT_EQ(seen[3], (SeenInstance{0x2d, false, {}, {}, {}}));
}

}  // namespace
}  // namespace understudy::worker
