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
  EXPECT_EQ(config->block_size, 64U);
  EXPECT_EQ(config->options.num_gpu_blocks, 16384);
  EXPECT_EQ(config->options.max_num_seqs, 256);
  EXPECT_EQ(config->options.max_num_batched_tokens, 8192);
  EXPECT_EQ(config->drain_limit, std::chrono::seconds(900));
  EXPECT_FALSE(config->status_enabled);
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
  EXPECT_EQ(with([](auto& o) { o.num_gpu_blocks = 0; }),
            "--num-gpu-blocks-override must be between 1 and 4294967294, got 0");
  EXPECT_EQ(with([](auto& o) { o.speedup_ratio = -1; }),
            "--speedup-ratio must be a finite number >= 0, got -1.000000");
  EXPECT_EQ(with([](auto& o) { o.engine_type = "sglang"; }),
            "--engine-type 'sglang' is not supported by this version (allowed: vllm)");
  EXPECT_EQ(with([](auto& o) { o.event_plane = "zmq"; }),
            "--event-plane 'zmq' is not supported by this version (allowed: nats)");
  EXPECT_EQ(with([](auto& o) { o.discovery_backend = "mem"; }),
            "--discovery-backend 'mem' is not supported by this version (allowed: etcd, file)");
  EXPECT_EQ(with([](auto& o) { o.endpoint = "foo"; }), "Invalid in= option 'foo'");
  EXPECT_EQ(with([](auto& o) { o.block_size = 1; }),
            "--block-size must be at least 2 with --engine-type vllm, got 1");
}

TEST(WorkerConfig, RefusesAReleaseThatIsNotServed) {
  const auto profile = MakeReleaseProfile("1.6", {"ns", "backend", "generate"}, 1);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().message,
            "--dynamo-release '1.6' is not supported by this version (allowed: 1.3)");
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
