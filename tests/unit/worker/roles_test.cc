#include "worker/config/roles.h"

#include "worker/config/worker_options.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using mocker::WorkerType;

Result<std::vector<std::uint16_t>> Ports(const std::string& text, std::uint32_t workers) {
  RoleFlags flags;
  flags.bootstrap_ports = text;
  return BootstrapPorts(flags, std::nullopt, workers, WorkerType::kPrefill);
}

std::string Refusal(const std::string& text, std::uint32_t workers = 1) {
  const auto ports = Ports(text, workers);
  return ports ? "taken" : ports.error().message;
}

TEST(Roles, TheModeOrItsOldNamesSayWhatAWorkerDoes) {
  std::vector<std::string> warnings;
  EXPECT_EQ(*AskedRole({}, warnings), std::nullopt);
  EXPECT_EQ(*AskedRole({.disaggregation_mode = "agg"}, warnings), WorkerType::kAggregated);
  EXPECT_EQ(*AskedRole({.disaggregation_mode = "prefill"}, warnings), WorkerType::kPrefill);
  EXPECT_EQ(*AskedRole({.disaggregation_mode = "decode"}, warnings), WorkerType::kDecode);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(*AskedRole({.is_prefill_worker = true}, warnings), WorkerType::kPrefill);
  EXPECT_EQ(*AskedRole({.is_decode_worker = true}, warnings), WorkerType::kDecode);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0], "--is-prefill-worker is deprecated, use --disaggregation-mode prefill");
}

TEST(Roles, ContradictionsAreRefusedInTheReferencesWords) {
  std::vector<std::string> warnings;
  const auto both = AskedRole({.is_prefill_worker = true, .is_decode_worker = true}, warnings);
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message,
            "Cannot specify both --is-prefill-worker and --is-decode-worker. A worker must be "
            "either prefill, decode, or aggregated (neither flag set).");
  EXPECT_FALSE(AskedRole({.disaggregation_mode = "agg", .is_decode_worker = true}, warnings));
}

TEST(Roles, FlagsAndFileMustAgree) {
  EXPECT_EQ(*RoleOf(std::nullopt, WorkerType::kAggregated), WorkerType::kAggregated);
  EXPECT_EQ(*RoleOf(std::nullopt, WorkerType::kDecode), WorkerType::kDecode);
  EXPECT_EQ(*RoleOf(WorkerType::kPrefill, WorkerType::kAggregated), WorkerType::kPrefill);
  EXPECT_EQ(*RoleOf(WorkerType::kPrefill, WorkerType::kPrefill), WorkerType::kPrefill);
  const auto differ = RoleOf(WorkerType::kPrefill, WorkerType::kDecode);
  ASSERT_FALSE(differ);
  EXPECT_EQ(differ.error().message,
            "--disaggregation-mode says prefill, --extra-engine-args says worker_type decode");
}

TEST(Roles, PortsAreOnePerWorker) {
  EXPECT_EQ(*Ports("8998", 1), (std::vector<std::uint16_t>{8998}));
  EXPECT_EQ(*Ports("8998, 0,65535", 3), (std::vector<std::uint16_t>{8998, 0, 65535}));
  EXPECT_TRUE(Ports("", 4)->empty());
  EXPECT_EQ(Refusal("1,2", 3),
            "--bootstrap-ports must have exactly --num-workers (3) ports, got 2: [1, 2]");
  for (const char* bad : {"x", "1,", ",1", "65536", "-1", "1;2", "1 2", "0x10"}) {
    EXPECT_NE(Refusal(bad).find("is not a port"), std::string::npos) << bad;
  }
}

TEST(Roles, OnlyPrefillWorkersListen) {
  RoleFlags flags;
  flags.bootstrap_ports = "7";
  EXPECT_TRUE(BootstrapPorts(flags, std::nullopt, 1, WorkerType::kDecode)->empty());
  EXPECT_TRUE(BootstrapPorts(flags, std::nullopt, 1, WorkerType::kAggregated)->empty());
  EXPECT_TRUE(BootstrapPorts({}, std::nullopt, 1, WorkerType::kPrefill)->empty());
}

TEST(Roles, APortOfTheEngineArgumentsIsForOneWorker) {
  EXPECT_EQ(*BootstrapPorts({}, 5800, 1, WorkerType::kPrefill), (std::vector<std::uint16_t>{5800}));
  EXPECT_EQ(BootstrapPorts({}, 0, 2, WorkerType::kPrefill)->size(), 2U);
  const auto shared = BootstrapPorts({}, 5800, 2, WorkerType::kPrefill);
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().message,
            "bootstrap_port 5800 cannot be that of 2 workers: give --bootstrap-ports");
}

TEST(Roles, DecodeWorkersAreToldAHostOrOurOwnAddress) {
  const auto named = BootstrapHost([](const char* name) -> std::optional<std::string> {
    return std::string_view(name) == "DYN_HTTP_RPC_HOST" ? std::optional<std::string>("node-7")
                                                         : std::nullopt;
  });
  ASSERT_TRUE(named);
  EXPECT_EQ(*named, "node-7");
}

TEST(Roles, PrefillWorkersHaveAComponentOfTheirOwn) {
  const Environment none = [](const char*) { return std::nullopt; };
  const auto endpoint = [&](const char* mode) {
    WorkerOptions options;
    options.discovery_backend = "etcd";
    options.request_plane = "nats";
    options.event_plane = "nats";
    options.role.disaggregation_mode = mode;
    const auto config = MakeWorkerConfig(options, none);
    return config ? config->endpoint.Dotted() : config.error().message;
  };
  EXPECT_EQ(endpoint("prefill"), "dynamo.prefill.generate");
  EXPECT_EQ(endpoint("decode"), "dynamo.backend.generate");
  EXPECT_EQ(endpoint("agg"), "dynamo.backend.generate");
}

}  // namespace
}  // namespace understudy::worker
