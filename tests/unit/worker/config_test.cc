#include "worker/config/environment.h"
#include "worker/config/release_profile.h"
#include "worker/config/worker_options.h"

#include <map>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

Environment From(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

WorkerOptions Valid() {
  WorkerOptions options;
  options.discovery_backend = "etcd";
  options.request_plane = "nats";
  options.event_plane = "nats";
  return options;
}

std::string ErrorOf(const WorkerOptions& options, const Environment& env = From({})) {
  const auto config = MakeWorkerConfig(options, env);
  return config ? "" : config.error().message;
}

TEST(WorkerConfig, DefaultsAreTheReferences) {
  const auto config = MakeWorkerConfig(Valid(), From({}));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->endpoint.Dotted(), "dynamo.backend.generate");
  EXPECT_EQ(config->args.engine.block_size, 64U);
  EXPECT_EQ(config->args.engine.num_gpu_blocks, 16384U);
  EXPECT_EQ(config->args.engine.max_num_seqs, 256U);
  EXPECT_EQ(config->args.engine.max_num_batched_tokens, 8192U);
  EXPECT_EQ(config->dp_size, 1U);
  EXPECT_EQ(config->drain_limit, std::chrono::seconds(900));
  EXPECT_FALSE(config->status.enabled);
  EXPECT_EQ(config->device_type, "cuda");
}

TEST(WorkerConfig, NamespaceComesFromTheEnvironment) {
  const auto config = MakeWorkerConfig(
      Valid(), From({{"DYN_NAMESPACE", "prod"}, {"DYN_NAMESPACE_WORKER_SUFFIX", "a1"}}));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->endpoint.Dotted(), "prod-a1.backend.generate");
}

TEST(WorkerConfig, ErrorsNameTheOptionTheValueAndWhatIsAllowed) {
  const auto with = [](auto change) {
    auto options = Valid();
    change(options);
    return ErrorOf(options);
  };
  EXPECT_EQ(with([](auto& o) { o.num_workers = 0; }), "--num-workers must be at least 1, got 0");
  EXPECT_EQ(with([](auto& o) { o.engine.data_parallel_size = 65'537; }),
            "--data-parallel-size (dp_size) must be at most 65536, got 65537");
  EXPECT_EQ(with([](auto& o) {
              o.engine.data_parallel_size = 65'536;
              o.num_workers = 17;
            }),
            "--num-workers x --data-parallel-size must be at most 1048576 ranks, got 1114112");
  EXPECT_EQ(with([](auto& o) { o.event_plane = "tcp"; }),
            "--event-plane 'tcp' is not supported by this version (allowed: nats, zmq)");
  EXPECT_EQ(with([](auto& o) { o.durable_kv_events = true; }),
            "--durable-kv-events needs --dynamo-release 1.3, got 'both': 1.6 has no durable mode");
  EXPECT_EQ(with([](auto& o) {
              o.durable_kv_events = true;
              o.dynamo_release = "1.3";
              o.event_plane = "zmq";
            }),
            "--durable-kv-events needs --event-plane nats, got 'zmq'");
  EXPECT_EQ(with([](auto& o) { o.kv_batching_window_ms = 15'001; }),
            "--kv-batching-window-ms must be between 0 and 15000, got 15001");
  EXPECT_EQ(with([](auto& o) { o.discovery_backend = "mem"; }),
            "--discovery-backend 'mem' is not supported by this version (allowed: etcd, file)");
  EXPECT_EQ(with([](auto& o) { o.endpoint = "foo"; }), "Invalid in= option 'foo'");
  EXPECT_EQ(with([](auto& o) {
              o.role.disaggregation_mode = "decode";
              o.role.is_prefill_worker = true;
            }),
            "Cannot combine --is-prefill-worker/--is-decode-worker with --disaggregation-mode. Use "
            "only --disaggregation-mode.");
  EXPECT_EQ(with([](auto& o) {
              o.role.disaggregation_mode = "prefill";
              o.role.bootstrap_ports = "1,2";
            }),
            "--bootstrap-ports must have exactly --num-workers (1) ports, got 2: [1, 2]");
}

TEST(ReleaseProfile, KnowsEachReleaseAndBoth) {
  const transport::EndpointName endpoint{"ns", "backend", "generate"};
  const auto both = MakeReleaseProfile("both", endpoint);
  ASSERT_TRUE(both);
  ASSERT_EQ(both->wires.size(), 2U);
  EXPECT_EQ(both->service_version, "1.3.0+post1");
  EXPECT_EQ(both->request_plane_codec, "msgpack");
  const auto old = MakeReleaseProfile("1.3", endpoint);
  ASSERT_TRUE(old);
  ASSERT_EQ(old->wires.size(), 1U);
  EXPECT_FALSE(old->request_plane_codec.has_value());
  EXPECT_FALSE(old->card_says_publishing);
  const auto newer = MakeReleaseProfile("1.6", endpoint);
  ASSERT_TRUE(newer);
  ASSERT_EQ(newer->wires.size(), 1U);
  EXPECT_EQ(newer->service_version, "1.6.1");
  EXPECT_TRUE(newer->merges_units);
  EXPECT_FALSE(both->merges_units || old->merges_units);
  EXPECT_TRUE(newer->card_says_publishing);
}

TEST(ReleaseProfile, RefusesWhatIsNotServed) {
  const auto refusal = [](const char* release, const char* ns) {
    const auto profile = MakeReleaseProfile(release, {ns, "backend", "generate"});
    return profile ? std::string("accepted") : profile.error().message;
  };
  EXPECT_EQ(refusal("1.7", "ns"), "--dynamo-release '1.7' is not known (allowed: 1.3, 1.6, both)");
  EXPECT_EQ(refusal("both", "namespace"),
            "namespace 'namespace' needs --dynamo-release 1.3 or 1.6: the records of both would "
            "share keys");
  EXPECT_EQ(refusal("1.3", "namespace"), "accepted");
}

TEST(ReleaseProfile, PublisherIdsFitTheRelease) {
  const transport::EndpointName endpoint{"ns", "backend", "generate"};
  const auto both = MakeReleaseProfile("both", endpoint);
  ASSERT_TRUE(both);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LT(NewChannel(both->wires[1], kKvEventsTopic, endpoint).publisher_id,
              std::uint64_t{1} << 53U);
  }
  EXPECT_EQ(transport::EventSubject(NewChannel(both->wires[0], kLoadTopic, endpoint)),
            "namespace.ns.kv_metrics");
  EXPECT_EQ(transport::EventSubject(NewChannel(both->wires[0], kForwardPassTopic, endpoint)),
            "namespace.ns.component.backend.forward-pass-metrics");
  EXPECT_EQ(transport::EventSubject(NewChannel(both->wires[1], kLoadTopic, endpoint)),
            "namespace.ns.component.backend.endpoint.generate.kv_metrics");
}

TEST(Environment, EmptyCountsAsUnset) {
  const auto env =
      From({{"A", ""}, {"B", "x"}, {"N", "12"}, {"BAD", "12x"}, {"LOW", "-3"}, {"T", "Yes"}});
  EXPECT_EQ(Text(env, "A", "d"), "d");
  EXPECT_EQ(Text(env, "B", "d"), "x");
  EXPECT_EQ(Number(env, "N", 5, 0), 12);
  EXPECT_EQ(Number(env, "BAD", 5, 0), 5);
  EXPECT_EQ(Number(env, "LOW", 5, 0), 5);
  EXPECT_TRUE(Flag(env, "T", false));
  EXPECT_TRUE(Flag(env, "A", true));
  EXPECT_FALSE(Flag(env, "B", true));
}

TEST(Environment, HiddenDevicesMakeACpuWorker) {
  EXPECT_EQ(DeviceType(From({})), "cuda");
  for (const auto* value : {"", "-1", "none", "VOID"}) {
    EXPECT_EQ(DeviceType(From({{"CUDA_VISIBLE_DEVICES", value}})), "cpu") << value;
  }
  EXPECT_EQ(DeviceType(From({{"CUDA_VISIBLE_DEVICES", "0"}})), "cuda");
  EXPECT_EQ(DeviceType(From({{"NVIDIA_VISIBLE_DEVICES", "void"}})), "cpu");
  EXPECT_EQ(DeviceType(From({{"NVIDIA_VISIBLE_DEVICES", ""}})), "cuda");
}

TEST(Environment, EtcdEndpointsAreAList) {
  const auto options = EtcdFromEnvironment(
      From({{"ETCD_ENDPOINTS", "http://a:1, http://b:2,"}, {"ETCD_LEASE_TTL", "7"}}));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->endpoints, (std::vector<std::string>{"http://a:1", "http://b:2"}));
  EXPECT_EQ(options->lease_ttl_s, 7);
  EXPECT_EQ(EtcdFromEnvironment(From({{"ETCD_LEASE_TTL", "0"}}))->lease_ttl_s, 10);
}

TEST(Environment, CredentialsInAnAddressAreNotShown) {
  EXPECT_EQ(transport::WithoutCredentials("nats://u:p@ss@a:4222,nats://b:4222"),
            "nats://***@a:4222,nats://b:4222");
  EXPECT_EQ(transport::WithoutCredentials("user:secret@host"), "***@host");
  EXPECT_EQ(transport::WithoutCredentials("nats://a:4222"), "nats://a:4222");
  EXPECT_EQ(transport::WithoutCredentials(""), "");
}

TEST(Environment, TlsToEtcdIsRefusedClearly) {
  const auto options = EtcdFromEnvironment(From({{"ETCD_AUTH_CA", "-----BEGIN"}}));
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().code, Errc::kInvalidConfig);
}

}  // namespace
}  // namespace understudy::worker
