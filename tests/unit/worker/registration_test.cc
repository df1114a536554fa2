#include "worker/registration/registration.h"

#include "worker/registration/control_endpoints.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

WorkerConfig Config(std::uint32_t workers) {
  WorkerConfig config;
  config.endpoint = {"dynamo", "backend", "generate"};
  config.workers = workers;
  config.args.engine.block_size = 64;
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
  const auto profile = MakeReleaseProfile("1.3", config.endpoint);
  ASSERT_TRUE(profile);
  const auto card = MakeCard(config);
  ASSERT_TRUE(card);
  const auto registration =
      MakeRegistration(config, *profile, *card, MakeIdentities(config, 1), {{"channel", ""}}, {});
  ASSERT_EQ(registration.records.size(), 5U);
  EXPECT_EQ(registration.records[0].key, "channel");
  EXPECT_TRUE(registration.records[1].key.starts_with("v1/mdc/dynamo/backend/generate/"));
  EXPECT_TRUE(registration.records[2].key.starts_with("v1/mdc/"));
  EXPECT_TRUE(registration.records[3].key.starts_with("v1/instances/dynamo/backend/generate/"));
  ASSERT_EQ(registration.instance_keys.size(), 2U);
  EXPECT_EQ(registration.instance_keys[1], registration.records[4].key);
}

/// Sources of `ranks` ranks of one worker, in the forms of `profile`.
std::vector<KvSource> Sources(const ReleaseProfile& profile,
                              const transport::EndpointName& endpoint,
                              std::uint32_t ranks) {
  std::vector<KvSource> sources;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t wire = 0; wire < profile.wires.size(); ++wire) {
      sources.push_back({wire,
                         RankIndex{rank},
                         0xab,
                         rank,
                         NewChannel(profile.wires[wire], kKvEventsTopic, endpoint)});
    }
  }
  return sources;
}

TEST(Registration, EachRankIsAskedAtAnEndpointOfEachRelease) {
  const auto config = Config(1);
  const auto profile = MakeReleaseProfile("both", config.endpoint);
  ASSERT_TRUE(profile);
  const auto sources = Sources(*profile, config.endpoint, 2);
  const auto queries = MakeQueryEndpoints(config, *profile, sources);
  ASSERT_EQ(queries.size(), 4U);
  EXPECT_EQ(queries[2].instance.transport_value, "dynamo_backend.worker_kv_indexer_query_dp1-ab");
  EXPECT_FALSE(queries[2].source.has_value());
  const auto name = "worker_kv_query_source_" + transport::HexId(sources[3].channel.publisher_id);
  EXPECT_EQ(queries[3].instance.name.endpoint, name);
  ASSERT_TRUE(queries[3].source.has_value());
  EXPECT_EQ(queries[3].source->dp_rank, 1U);
  EXPECT_EQ(QuerySubjects(queries).size(), 4U);
  EXPECT_EQ(QuerySubjects(queries)[3], "dynamo_backend." + name + "-ab");
}

TEST(Registration, ManyQueryEndpointsShareOneSubscription) {
  const auto config = Config(1);
  const auto profile = MakeReleaseProfile("both", config.endpoint);
  ASSERT_TRUE(profile);
  const auto queries =
      MakeQueryEndpoints(config, *profile, Sources(*profile, config.endpoint, 100));
  const auto subjects = QuerySubjects(queries);
  ASSERT_EQ(subjects.size(), 1U);
  ASSERT_TRUE(subjects[0].ends_with(".*"));
  const auto prefix = subjects[0].substr(0, subjects[0].size() - 1);
  std::set<std::string> seen;
  for (const auto& query : queries) {
    EXPECT_TRUE(query.instance.transport_value.starts_with(prefix + "worker_kv_"));
    EXPECT_TRUE(seen.insert(query.instance.transport_value).second);
  }
}

TEST(Registration, TheCardTellsOfKvEvents) {
  const auto config = Config(1);
  const auto both = MakeReleaseProfile("both", config.endpoint);
  const auto old = MakeReleaseProfile("1.3", config.endpoint);
  ASSERT_TRUE(both && old);
  transport::ModelCard card;
  DeclareKvEvents(card, *both, true, true);
  EXPECT_TRUE(card.enable_local_indexer);
  EXPECT_EQ(card.kv_event_publishing_enabled, true);
  DeclareKvEvents(card, *both, false, true);  // a decode worker
  EXPECT_FALSE(card.enable_local_indexer);
  EXPECT_EQ(card.kv_event_publishing_enabled, false);
  transport::ModelCard of_13;
  DeclareKvEvents(of_13, *old, true, false);  // durable
  EXPECT_FALSE(of_13.enable_local_indexer);
  EXPECT_FALSE(of_13.kv_event_publishing_enabled.has_value());
}

TEST(Registration, AWorkerWithoutAModelIsNamedAsTheReferenceNamesIt) {
  const auto card = MakeCard(Config(1));
  ASSERT_TRUE(card);
  EXPECT_EQ(card->display_name, "dynamo");
  EXPECT_FALSE(card->config.has_value());
}

// engine.md 1.4: what the router computes with.
TEST(Registration, TheCardTellsTheEnginesSizes) {
  auto config = Config(1);
  config.args = *mocker::ParseEngineArgs(
      R"({"engine_type":"sglang","num_gpu_blocks":100,"sglang":{"page_size":16},"dp_size":3,)"
      R"("max_num_seqs":7,"max_num_batched_tokens":900})");
  config.dp_size = config.args.engine.rank_count;
  const auto card = MakeCard(config);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->kv_cache_block_size, 16U);
  EXPECT_EQ(card->total_kv_blocks, 100U);
  EXPECT_EQ(card->max_num_seqs, 7U);
  EXPECT_EQ(card->max_num_batched_tokens, 900U);
  EXPECT_EQ(card->data_parallel_size, 3U);
  EXPECT_EQ(card->context_length, 0U);
}

TEST(Registration, TheCardTellsTheDefaultsOfWhatIsUnlimited) {
  auto config = Config(1);
  config.args = *mocker::ParseEngineArgs(R"({"max_num_seqs":null,"max_num_batched_tokens":null})");
  const auto card = MakeCard(config);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->max_num_seqs, 256U);
  EXPECT_EQ(card->max_num_batched_tokens, 8192U);
}

// engine-1.6.md 1.4.
TEST(Registration, TheCardOfTheEngineOf16TellsTheContextAndNoLimitThatIsNotThere) {
  auto config = Config(1);
  config.args = *mocker::ParseEngineConfig(
      R"({"engine":{"max_model_len":4096,"max_num_seqs":null,"max_num_batched_tokens":null}})");
  const auto card = MakeCard(config);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->context_length, 4096U);
  EXPECT_EQ(transport::EncodeCard(*card).find("max_num_"), std::string::npos);
}

// M-097.
TEST(Registration, TheCardTellsThatPlannedAnswersAreTaken) {
  const auto card = MakeCard(Config(1));
  ASSERT_TRUE(card);
  EXPECT_NE(transport::EncodeCard(*card).find(R"("runtime_data":{"output_replay_consumer":true})"),
            std::string::npos);
}

TEST(Registration, AMissingModelFolderIsNamed) {
  auto config = Config(1);
  config.options.model_path = "/nonexistent/model";
  const auto card = MakeCard(config);
  ASSERT_FALSE(card);
  EXPECT_EQ(card.error().code, Errc::kInvalidConfig);
  EXPECT_NE(card.error().message.find("/nonexistent/model"), std::string::npos);
}

TEST(ControlEndpoints, OneWorkerHasTwoUnderItsOwnId) {
  const auto config = Config(1);
  const auto profile = *MakeReleaseProfile("both", config.endpoint);
  const auto workers = MakeIdentities(config, 0x4d);
  const auto endpoints = MakeControlEndpoints(config, profile, workers);
  ASSERT_EQ(endpoints.size(), 2U);
  EXPECT_EQ(transport::EncodeInstance(endpoints[0].instance).key,
            "v1/instances/dynamo/backend/control/4d");
  EXPECT_EQ(endpoints[0].instance.transport_value, "dynamo_backend.control-4d");
  EXPECT_EQ(endpoints[0].instance.request_plane_codec, profile.request_plane_codec);
  EXPECT_TRUE(endpoints[1].clears_only);
  EXPECT_EQ(endpoints[1].instance.transport_value, "dynamo_backend.clear_kv_blocks-4d");
  EXPECT_EQ(
      ControlSubjects(endpoints, 1),
      (std::vector<std::string>{"dynamo_backend.control-4d", "dynamo_backend.clear_kv_blocks-4d"}));
}

TEST(ControlEndpoints, ManyWorkersShareASubscriptionThatIsNotTheRequests) {
  const auto config = Config(50);
  const auto profile = *MakeReleaseProfile("both", config.endpoint);
  const auto workers = MakeIdentities(config, 1);
  const auto endpoints = MakeControlEndpoints(config, profile, workers);
  ASSERT_EQ(endpoints.size(), 100U);
  const auto subjects = ControlSubjects(endpoints, workers.size());
  ASSERT_EQ(subjects.size(), 1U);
  const auto prefix = subjects[0].substr(0, subjects[0].size() - 1);
  const auto requests = RequestSubject(workers);
  EXPECT_NE(prefix, requests.substr(0, requests.size() - 1));
  for (const auto& endpoint : endpoints) {
    EXPECT_TRUE(endpoint.instance.transport_value.starts_with(prefix));
    EXPECT_EQ(endpoint.instance.instance_id, workers[endpoint.worker].instance_id);
  }
}

TEST(ControlEndpoints, TheEndpointOfRequestsKeepsItsName) {
  auto config = Config(1);
  config.endpoint.endpoint = "control";
  const auto profile = *MakeReleaseProfile("both", config.endpoint);
  const auto endpoints = MakeControlEndpoints(config, profile, MakeIdentities(config, 1));
  ASSERT_EQ(endpoints.size(), 1U);
  EXPECT_EQ(endpoints[0].instance.name.endpoint, "clear_kv_blocks");
}

}  // namespace
}  // namespace understudy::worker
