#include "understudy/mocker/engine_config.h"

#include "plugin/mocker/config/accept_rates.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Texts = std::vector<std::string>;

EngineArgs Parse(const std::string& json) {
  auto args = ParseEngineConfig(json);
  EXPECT_TRUE(args) << json << ": " << (args ? "" : args.error().message);
  return args ? std::move(*args) : EngineArgs{};
}

std::string ErrorOf(const std::string& json) {
  const auto args = ParseEngineConfig(json);
  return args ? "accepted" : args.error().message;
}

std::string ErrorOfRank(const std::string& members) {
  return ErrorOf(R"({"engine":{)" + members + "}}");
}

TEST(EngineConfig, DefaultsAreTheReferences) {
  const auto args = Parse("{}");
  EXPECT_EQ(args.engine.semantics, SemanticsRelease::k16);
  EXPECT_EQ(args.engine.engine_type, EngineType::kVllm);
  EXPECT_EQ(args.engine.block_size, 64U);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_EQ(args.engine.max_num_seqs, 256U);
  EXPECT_EQ(args.engine.max_num_batched_tokens, 8192U);
  EXPECT_EQ(args.engine.rank_count, 1U);
  EXPECT_FALSE(args.engine.max_model_len);
  EXPECT_FALSE(args.engine.host_offload);
  EXPECT_EQ(args.engine.latency_model, "");
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth);
  EXPECT_FALSE(args.engine.speculative);
  EXPECT_FALSE(args.enable_local_indexer);
  EXPECT_EQ(args.handoff_session_timeout, std::chrono::minutes(5));
  EXPECT_EQ(GpusPerWorker(args.aic), 1U);
  EXPECT_EQ(args.warnings, Texts{});
}

TEST(EngineConfig, EveryMemberOfARankArrives) {
  const auto args = Parse(R"({"engine": {
    "backend": "sglang", "num_gpu_blocks": 100, "block_size": 16, "max_model_len": 999,
    "max_num_seqs": 7, "max_num_batched_tokens": null, "prefill_decode_interval": 3,
    "enable_prefix_caching": false, "speedup_ratio": 2, "decode_speedup_ratio": 3.5,
    "worker_type": "prefill", "preemption_mode": "fifo", "kv_bytes_per_token": 1024,
    "kv_transfer_bandwidth": 64, "kv_transfer_timing_mode": "destination_missing",
    "timing_model": {"decode_ms": 2, "type": "fixed", "prefill_ms": 1.5},
    "sglang": {"schedule_policy": "lpm", "max_prefill_tokens": 320, "chunked_prefill_size": 64,
               "clip_max_new_tokens": 9, "schedule_conservativeness": 0.5}}})");
  const MockerOptions& engine = args.engine;
  EXPECT_EQ(engine.engine_type, EngineType::kSglang);
  EXPECT_EQ(engine.num_gpu_blocks, 100U);
  EXPECT_EQ(engine.block_size, 16U);
  EXPECT_EQ(engine.max_model_len, 999U);
  EXPECT_EQ(engine.max_num_seqs, 7U);
  EXPECT_FALSE(engine.max_num_batched_tokens);
  EXPECT_EQ(engine.prefill_decode_interval, 3U);
  EXPECT_FALSE(engine.enable_prefix_caching);
  EXPECT_TRUE(engine.enable_chunked_prefill);
  EXPECT_EQ(engine.speedup_ratio, 2.0);
  EXPECT_EQ(engine.decode_speedup_ratio, 3.5);
  EXPECT_EQ(engine.worker_type, WorkerType::kPrefill);
  EXPECT_EQ(engine.preemption_mode, PreemptionMode::kFifo);
  EXPECT_EQ(engine.kv_bytes_per_token, 1024U);
  EXPECT_EQ(engine.kv_transfer_bandwidth, 64.0);
  EXPECT_EQ(engine.kv_transfer_timing, TransferTiming::kDestinationMissing);
  EXPECT_EQ(engine.latency_model, "fixed:1.5,2");
  EXPECT_EQ(engine.sglang.schedule_policy, SglangPolicy::kLpm);
  EXPECT_EQ(engine.sglang.max_prefill_tokens, 320U);
  EXPECT_EQ(engine.sglang.chunked_prefill_size, 64U);
  EXPECT_EQ(engine.sglang.clip_max_new_tokens, 9U);
  EXPECT_EQ(engine.sglang.schedule_conservativeness, 0.5);
}

TEST(EngineConfig, EveryOtherMemberArrives) {
  const auto args = Parse(R"({
    "engine": {"enable_chunked_prefill": false, "prefill_schedule_interval": 4,
               "kv_transfer_bandwidth": 0},
    "dp_size": 2, "tensor_parallel_size": 4, "startup_time": 1.5,
    "dynamo": {"enable_local_indexer": true, "bootstrap_port": 8998,
               "handoff_session_timeout_ms": 5000, "response_replay_trace_path": "trace.jsonl",
               "reasoning": {"start_thinking_token_id": 11, "end_thinking_token_id": 12,
                             "thinking_ratio": 0.5},
               "zmq_kv_events_port": 5557, "zmq_replay_port": 6557,
               "router_queue_policy": "wspt"}})");
  EXPECT_FALSE(args.engine.enable_chunked_prefill);
  EXPECT_EQ(args.engine.prefill_schedule_interval, 4U);
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth) << "0 means no delay";
  EXPECT_EQ(args.engine.rank_count, 2U);
  EXPECT_EQ(args.engine.startup_time.count(), 1.5);
  EXPECT_EQ(GpusPerWorker(args.aic), 8U) << "tensor_parallel_size * dp_size";
  EXPECT_TRUE(args.enable_local_indexer);
  EXPECT_EQ(args.bootstrap_port, 8998);
  EXPECT_EQ(args.handoff_session_timeout, std::chrono::seconds(5));
  EXPECT_EQ(args.response_replay_trace_path, "trace.jsonl");
  ASSERT_TRUE(args.engine.reasoning);
  EXPECT_EQ(args.engine.reasoning->end_token, 12U);
  EXPECT_EQ(args.zmq_kv_events_port, 5557);
  EXPECT_EQ(args.zmq_replay_port, 6557);
  EXPECT_EQ(args.router_queue_policy, RouterQueuePolicy::kWspt);
}

TEST(EngineConfig, SpeculativeDecodingArrives) {
  const auto args =
      Parse(R"({"engine":{"aic_nextn":3,"aic_nextn_accept_rates":"1,0.5","aic_mtp_seed":7}})");
  ASSERT_TRUE(args.engine.speculative);
  EXPECT_EQ(args.engine.speculative->accept_rates, (std::vector<double>{1.0, 0.5, 0.0}));
  EXPECT_EQ(args.engine.speculative->seed, 7U);
}

TEST(EngineConfig, HostOffloadArrives) {
  const auto args = Parse(R"({"engine":{"kv_cache_bytes_per_token":1024,"native_host_offload":
    {"num_host_blocks":10,"d2h_bandwidth_gbps":1,"latency_to_first_byte_ms":0.5}}})");
  ASSERT_TRUE(args.engine.host_offload);
  EXPECT_EQ(args.engine.host_offload->num_host_blocks, 10U);
  EXPECT_EQ(args.engine.host_offload->d2h_bandwidth_gbps, 1.0);
  EXPECT_EQ(args.engine.host_offload->h2d_bandwidth_gbps, 32.0);
  EXPECT_EQ(args.engine.host_offload->latency_to_first_byte_ms, 0.5);
  EXPECT_EQ(args.engine.kv_cache_bytes_per_token, 1024U);
  EXPECT_FALSE(args.engine.kv_bytes_per_token) << "of a hand-off, another number";
}

TEST(EngineConfig, AProfileIsAPathToAFileThatIsThere) {
  const std::string path =
      std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/perf_small.npz";
  const std::string model = R"("timing_model":{"type":"external","provider":"dynamo_profile")";
  EXPECT_EQ(Parse(R"({"engine":{)" + model + R"(,"config":{"path":")" + path + R"("}}}})")
                .engine.planner_profile_data,
            path);
  // Texts recorded from the 1.6.1 wheel.
  EXPECT_EQ(ErrorOfRank(model + "}"), "invalid type: null, expected struct Profile");
  EXPECT_EQ(ErrorOfRank(model + R"(,"config":{"path":3}})"),
            "path: invalid type: integer `3`, expected path string");
  EXPECT_EQ(ErrorOfRank(model + R"(,"config":{"path":"x","y":1}})"),
            "y: unknown field `y`, expected `path`");
}

TEST(EngineConfig, APerformanceModelOfAisIsNamed) {
  const auto args =
      Parse(R"({"engine":{"timing_model":{"type":"external","provider":"ais","config":{}}}})");
  EXPECT_EQ(args.aic.backend, "ais") << "refused by the worker unless a latency model is there";
}

// Texts and order recorded from the 1.6.1 wheel.
TEST(EngineConfig, FaultsAreNamedInTheReferencesOrder) {
  EXPECT_EQ(ErrorOf(R"({"engine":{"speedup_ratio":"x"},"dynamo":{"x":1}})").substr(0, 19),
            "x: unknown field `x")
      << "the worker's part first";
  EXPECT_EQ(ErrorOf(R"({"dp_size":"a","engine":{"backend":"x"}})"),
            R"(invalid engine launch config: dp_size: invalid type: string "a", expected u32)")
      << "then in the order of the text";
  EXPECT_EQ(ErrorOf(R"({"engine":{"speedup_ratio":-1,"num_gpu_blocks":0},"dp_size":0})"),
            "num_gpu_blocks must be positive");
  EXPECT_EQ(
      ErrorOf(R"({"engine":{"timing_model":{"type":"external","provider":"x"}},"dp_size":0})"),
      "dp_size must be positive")
      << "the launch before the provider";
  EXPECT_EQ(ErrorOf(R"({"engine":{"timing_model":{"type":"external","provider":"x"}},
                        "dynamo":{"handoff_session_timeout_ms":0}})"),
            "unsupported external timing provider \"x\"")
      << "the provider before the worker's values";
  EXPECT_EQ(ErrorOfRank(R"("aic_nextn":2,"aic_nextn_accept_rates":"bad","decode_speedup_ratio":2)"),
            "invalid aic_nextn_accept_rates value \"bad\": invalid float literal");
  EXPECT_EQ(ErrorOf(R"({"engine":{"speedup_ratio":"x"}} y)"),
            "trailing characters at line 1 column 34")
      << "syntax before everything";
}

// Texts recorded from the 1.6.1 wheel.
TEST(EngineConfig, TimingModelsAreNamedAsAWhole) {
  const std::string place = "invalid engine launch config: engine.timing_model";
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"type":"fixed","prefill_ms":"a","decode_ms":2})"),
            place + R"(: invalid type: string "a", expected f64)");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"prefill_ms":1})"), place + ": missing field `type`");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"type":3})"),
            place + ".type: invalid type: integer `3`, expected variant identifier");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":"fixed")"),
            place + R"(: invalid type: string "fixed", expected internally tagged enum )"
                    "TimingModelConfig");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"type":"external","provider":3})"),
            place + ": invalid type: integer `3`, expected a string");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"type":"external","provider":" "})"),
            "timing provider cannot be empty");
  EXPECT_EQ(ErrorOfRank(R"("timing_model":{"type":"polynomial","x":1})"), "accepted");
}

TEST(EngineConfig, WhatIsNotSimulatedIsRefusedByName) {
  const auto refusal = [](const std::string& member) {
    return "engine." + member + " is not simulated by this version; leave it out";
  };
  const std::string host =
      R"("kv_cache_bytes_per_token":4,"native_host_offload":{"num_host_blocks":3)";
  EXPECT_EQ(ErrorOfRank(R"("kv_cache_groups":[{}])"), refusal("kv_cache_groups"));
  EXPECT_EQ(ErrorOfRank(R"("kv_cache_groups":[])"), "accepted");
  EXPECT_EQ(ErrorOfRank(host + R"(},"g3_offload":{"scope":"worker_local","num_g3_blocks":4})"),
            refusal("g3_offload"));
  EXPECT_EQ(ErrorOfRank(host + R"(,"scope":"cluster_shared","kv_layout_id":"a"})"),
            refusal("native_host_offload.scope cluster_shared"));
  EXPECT_EQ(ErrorOfRank(R"("num_gpu_blocks":100,"block_size":64,"kv_cache_bytes_per_token":4,
                           "state_cache":{"bytes_per_request":10})"),
            refusal("state_cache"));
  // The reference refuses these as well.
  EXPECT_EQ(ErrorOfRank(R"("prefix_match_unit":16)"),
            "invalid engine launch config: engine: prefix_match_unit currently requires "
            "state_cache");
  EXPECT_EQ(ErrorOfRank(R"("kv_cache_capacity_bytes":10)"),
            "kv_cache_capacity_bytes requires kv_cache_groups");
  EXPECT_EQ(ErrorOfRank(R"("state_cache":null,"g3_offload":null,"kv_cache_capacity_bytes":null)"),
            "accepted");
}

// The reference takes the last one.
TEST(EngineConfig, AMemberGivenTwiceIsRefused) {
  EXPECT_EQ(ErrorOf(R"({"dp_size":1,"dp_size":2})"),
            "invalid engine launch config: duplicate field `dp_size`");
  EXPECT_EQ(ErrorOf(R"({"dynamo":{},"dynamo":{}})"), "duplicate field `dynamo`");
  EXPECT_EQ(ErrorOfRank(R"("sglang":{"max_prefill_tokens":1,"max_prefill_tokens":2})"),
            "invalid engine launch config: engine.sglang: duplicate field `max_prefill_tokens`");
}

// Bounds of ours: the reference accepts these and fails later.
TEST(EngineConfig, AbsurdValuesAreRefusedWithWhatIsAllowed) {
  EXPECT_EQ(ErrorOfRank(R"("block_size":99999999999)"),
            "block_size must be at most 4294967295, got 99999999999");
  EXPECT_EQ(ErrorOfRank(R"("max_num_seqs":4294967296)"),
            "max_num_seqs must be at most 4294967295, got 4294967296");
  EXPECT_EQ(ErrorOf(R"({"dynamo":{"handoff_session_timeout_ms":1000000000001}})"),
            "handoff_session_timeout_ms must be at most 1000000000000, got 1000000000001");
}

TEST(EngineConfig, WhatHasNoEffectIsOneWarning) {
  EXPECT_EQ(Parse(R"({"gpu_memory_utilization":0.9,"cuda_graph_reserved_bytes":1})").warnings,
            Texts{"gpu_memory_utilization, cuda_graph_reserved_bytes have no effect: the number of "
                  "blocks is not estimated, engine.num_gpu_blocks sets it"});
}

TEST(EngineConfig, TheFormIsToldByTheFirstNameThatOnlyOneHas) {
  EXPECT_EQ(FormOf(R"({"dp_size":2,"block_size":16})"), ConfigForm::kFlat);
  EXPECT_EQ(FormOf(R"({"startup_time":1,"engine":{},"block_size":16})"), ConfigForm::kNested);
  EXPECT_EQ(FormOf(R"({"dynamo":{}})"), ConfigForm::kNested);
  EXPECT_EQ(FormOf(R"({"dp_size":2,"zzz":1})"), std::nullopt) << "both have it, or none";
  EXPECT_EQ(FormOf("[]"), std::nullopt);
  EXPECT_EQ(FormOf(R"({"block_size":)"), std::nullopt);
}

}  // namespace
}  // namespace understudy::mocker
