#include "understudy/mocker/engine_args.h"

#include "plugin/mocker/config/accept_rates.h"
#include "understudy/mocker/replay.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Texts = std::vector<std::string>;

EngineArgs Parse(const std::string& json) {
  auto args = ParseEngineArgs(json);
  EXPECT_TRUE(args) << json << ": " << (args ? "" : args.error().message);
  return args ? std::move(*args) : EngineArgs{};
}

std::string ErrorOf(const std::string& json) {
  const auto args = ParseEngineArgs(json);
  return args ? "accepted" : args.error().message;
}

std::string ErrorOf(const EngineArguments& arguments) {
  const auto args = ValidateEngineArgs(arguments);
  return args ? "accepted" : args.error().message;
}

std::string RatesOf(const std::string& json) {
  const auto args = Parse(json);
  return args.engine.speculative ? AcceptRatesText(args.engine.speculative->accept_rates) : "none";
}

// Defaults: engine.md 1.1 and 1.6, recorded from dynamo-mocker 1.3.0.
TEST(EngineArgs, DefaultsAreTheReferences) {
  const auto args = Parse("{}");
  EXPECT_EQ(args.engine.engine_type, EngineType::kVllm);
  EXPECT_EQ(args.engine.block_size, 64U);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_EQ(args.engine.max_num_seqs, 256U);
  EXPECT_EQ(args.engine.max_num_batched_tokens, 8192U);
  EXPECT_EQ(args.engine.rank_count, 1U);
  EXPECT_EQ(args.engine.preemption_mode, PreemptionMode::kLifo);
  EXPECT_EQ(args.engine.worker_type, WorkerType::kAggregated);
  EXPECT_EQ(args.engine.kv_transfer_timing, TransferTiming::kFullPrompt);
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth);
  EXPECT_FALSE(args.engine.speculative);
  EXPECT_FALSE(args.engine.reasoning);
  EXPECT_FALSE(args.enable_local_indexer);
  EXPECT_FALSE(args.bootstrap_port);
  EXPECT_EQ(args.handoff_session_timeout, std::chrono::minutes(5));
  EXPECT_EQ(args.response_replay_trace_path, "");
  EXPECT_EQ(args.warnings, Texts{});
}

TEST(EngineArgs, BlockSizeDependsOnTheEngine) {
  EXPECT_EQ(Parse(R"({"engine_type":"sglang"})").engine.block_size, 1U);
  EXPECT_EQ(Parse(R"({"engine_type":"sglang","sglang":{"page_size":16}})").engine.block_size, 16U);
  EXPECT_EQ(Parse(R"({"engine_type":"trtllm"})").engine.block_size, 32U);
  EXPECT_EQ(Parse(R"({"block_size":0})").engine.block_size, 64U);
  EXPECT_EQ(Parse(R"({"engine_type":"TRTLLM","block_size":8})").engine.block_size, 8U);
}

TEST(EngineArgs, NullMeansUnlimitedOrTheDefault) {
  EXPECT_FALSE(Parse(R"({"max_num_seqs":null})").engine.max_num_seqs);
  EXPECT_FALSE(Parse(R"({"max_num_batched_tokens":null})").engine.max_num_batched_tokens);
  EXPECT_EQ(Parse(R"({"num_gpu_blocks":null})").engine.num_gpu_blocks, 16384U);
  EXPECT_EQ(Parse(R"({"sglang":null,"trtllm":null,"reasoning":null,"startup_time":null})").warnings,
            Texts{});
  for (const std::string field : {"engine_type",
                                  "block_size",
                                  "enable_prefix_caching",
                                  "enable_chunked_prefill",
                                  "speedup_ratio",
                                  "decode_speedup_ratio",
                                  "dp_size",
                                  "worker_type",
                                  "is_prefill",
                                  "is_decode",
                                  "aic_mtp_seed",
                                  "enable_local_indexer",
                                  "handoff_session_timeout_ms",
                                  "kv_transfer_timing_mode",
                                  "enable_g4_storage",
                                  "preemption_mode"}) {
    EXPECT_EQ(ErrorOf("{\"" + field + "\":null}"), field + " must not be null");
  }
}

TEST(EngineArgs, WorkerTypeWinsOverTheOldFlags) {
  EXPECT_EQ(Parse(R"({"worker_type":"decode","is_prefill":true})").engine.worker_type,
            WorkerType::kDecode);
  EXPECT_EQ(Parse(R"({"is_prefill":true})").engine.worker_type, WorkerType::kPrefill);
  EXPECT_EQ(Parse(R"({"worker_type":"prefill","is_decode":null})").engine.worker_type,
            WorkerType::kPrefill);
}

TEST(EngineArgs, EveryFieldArrives) {
  const auto args = Parse(R"({
    "engine_type": "sglang", "num_gpu_blocks": 100, "block_size": 16, "max_num_seqs": 7,
    "max_num_batched_tokens": 2048, "enable_prefix_caching": false, "enable_chunked_prefill": false,
    "speedup_ratio": 2, "decode_speedup_ratio": 3.5, "dp_size": 4, "startup_time": 1.5,
    "planner_profile_data": "profile.npz", "enable_local_indexer": true, "bootstrap_port": 8998,
    "handoff_session_timeout_ms": 5000, "kv_bytes_per_token": 1024, "kv_transfer_bandwidth": 64.0,
    "kv_transfer_timing_mode": "destination_missing", "preemption_mode": "fifo",
    "reasoning": {"start_thinking_token_id": 11, "end_thinking_token_id": 12, "thinking_ratio": 0.5},
    "response_replay_trace_path": "trace.jsonl", "zmq_kv_events_port": 5557,
    "zmq_replay_port": 6557, "router_queue_policy": "wspt", "aic_backend": "vllm",
    "aic_tp_size": 4, "aic_attention_dp_size": 2, "has_perf_model": [1, {"any": null}],
    "sglang": {"schedule_policy": "lpm", "max_prefill_tokens": 320, "chunked_prefill_size": 64,
               "clip_max_new_tokens": 9, "schedule_conservativeness": 0.5}})");
  EXPECT_EQ(args.engine.engine_type, EngineType::kSglang);
  EXPECT_EQ(args.engine.num_gpu_blocks, 100U);
  EXPECT_EQ(args.engine.block_size, 16U);
  EXPECT_EQ(args.engine.max_num_seqs, 7U);
  EXPECT_EQ(args.engine.max_num_batched_tokens, 2048U);
  EXPECT_FALSE(args.engine.enable_prefix_caching);
  EXPECT_FALSE(args.engine.enable_chunked_prefill);
  EXPECT_EQ(args.engine.speedup_ratio, 2.0);
  EXPECT_EQ(args.engine.decode_speedup_ratio, 3.5);
  EXPECT_EQ(args.engine.rank_count, 4U);
  EXPECT_EQ(args.engine.startup_time.count(), 1.5);
  EXPECT_EQ(args.engine.planner_profile_data, "profile.npz");
  EXPECT_EQ(args.engine.kv_bytes_per_token, 1024U);
  EXPECT_EQ(args.engine.kv_transfer_bandwidth, 64.0);
  EXPECT_EQ(args.engine.kv_transfer_timing, TransferTiming::kDestinationMissing);
  EXPECT_EQ(args.engine.preemption_mode, PreemptionMode::kFifo);
  ASSERT_TRUE(args.engine.reasoning);
  EXPECT_EQ(args.engine.reasoning->start_token, 11U);
  EXPECT_EQ(args.engine.reasoning->end_token, 12U);
  EXPECT_EQ(args.engine.reasoning->thinking_ratio, 0.5);
  EXPECT_EQ(args.engine.sglang.schedule_policy, SglangPolicy::kLpm);
  EXPECT_EQ(args.engine.sglang.max_prefill_tokens, 320U);
  EXPECT_EQ(args.engine.sglang.chunked_prefill_size, 64U);
  EXPECT_EQ(args.engine.sglang.clip_max_new_tokens, 9U);
  EXPECT_EQ(args.engine.sglang.schedule_conservativeness, 0.5);
  EXPECT_TRUE(args.enable_local_indexer);
  EXPECT_EQ(args.bootstrap_port, 8998);
  EXPECT_EQ(args.handoff_session_timeout, std::chrono::seconds(5));
  EXPECT_EQ(args.response_replay_trace_path, "trace.jsonl");
  EXPECT_EQ(args.zmq_kv_events_port, 5557);
  EXPECT_EQ(args.zmq_replay_port, 6557);
  EXPECT_EQ(args.router_queue_policy, RouterQueuePolicy::kWspt);
  EXPECT_EQ(args.aic.backend, "vllm");
  EXPECT_EQ(GpusPerWorker(args.aic), 8U);
}

TEST(EngineArgs, AcceptanceRatesAreCutOrPadded) {
  EXPECT_EQ(RatesOf("{}"), "none");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":3})"), "0.85,0.3,0");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":1})"), "0.85");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":5,"aic_nextn_accept_rates":"  "})"), "0.85,0.3,0,0,0");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":3,"aic_nextn_accept_rates":"1,0.5"})"), "1,0.5,0");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":2,"aic_nextn_accept_rates":"1,0.5,0.25"})"), "1,0.5");
  EXPECT_EQ(RatesOf(R"({"aic_nextn":2,"aic_nextn_accept_rates":" +.5 , 1e-7"})"), "0.5,0.0000001");
}

// Texts recorded from dynamo-mocker 1.3.0.
TEST(EngineArgs, AcceptanceRatesThatAreNoneAreNamed) {
  const auto error = [](const std::string& rates) {
    return ErrorOf(R"({"aic_nextn":2,"aic_nextn_accept_rates":")" + rates + "\"}");
  };
  EXPECT_EQ(error("0.5,"),
            R"(invalid aic_nextn_accept_rates value "": cannot parse float from empty string)");
  EXPECT_EQ(error("0.5, x"), R"(invalid aic_nextn_accept_rates value " x": invalid float literal)");
  for (const std::string bad : {"0x1", "1e", "1_0", ".", "--1", "infinit", "e5"}) {
    EXPECT_EQ(error(bad),
              "invalid aic_nextn_accept_rates value \"" + bad + "\": invalid float literal");
  }
  EXPECT_EQ(error("0,1,2"), "aic_nextn_accept_rates[2] must be finite and in [0, 1], got 2");
  EXPECT_EQ(error("-0.1"), "aic_nextn_accept_rates[0] must be finite and in [0, 1], got -0.1");
  EXPECT_EQ(error("0,-inf"), "aic_nextn_accept_rates[1] must be finite and in [0, 1], got -inf");
  EXPECT_EQ(error("1e400"), "aic_nextn_accept_rates[0] must be finite and in [0, 1], got inf");
  EXPECT_EQ(error("-NaN"), "aic_nextn_accept_rates[0] must be finite and in [0, 1], got NaN");
}

TEST(EngineArgs, ZeroTurnsOffloadOff) {
  const auto args = Parse(R"({"num_g2_blocks":0,"num_g3_blocks":0,"offload_batch_size":0})");
  EXPECT_EQ(args.warnings, Texts{});
}

TEST(EngineArgs, WhatHasNoEffectIsOneWarningAGroup) {
  EXPECT_EQ(
      Parse(R"({"num_g2_blocks":5,"enable_g4_storage":true,"bandwidth_g1_to_g2_gbps":1})").warnings,
      Texts{"num_g2_blocks, enable_g4_storage, bandwidth_g1_to_g2_gbps have no effect: "
            "offload tiers are not simulated, as in the reference's release 1.3.0"});
  EXPECT_EQ(Parse(R"({"gpu_memory_utilization":0.9})").warnings,
            Texts{"gpu_memory_utilization has no effect: the number of blocks is not estimated, "
                  "num_gpu_blocks sets it"});
  EXPECT_EQ(Parse(R"({"engine_type":"sglang","sglang":{"schedule_policy":"zzz"}})").warnings,
            Texts{"Unknown sglang schedule_policy 'zzz', falling back to FIFO"});
  EXPECT_EQ(Parse(R"({"sglang":{"schedule_policy":"zzz"}})").warnings, Texts{});
  EXPECT_EQ(
      Parse(
          R"({"reasoning":{"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":1.5}})")
          .warnings,
      Texts{"reasoning.thinking_ratio 1.5 is above 1: answers are thinking to their end"});
}

TEST(EngineArgs, FaultsAreNamedInTheReferencesOrder) {
  EXPECT_EQ(ErrorOf(R"({"num_gpu_blocks":"x","engine_type":"zz"})"),
            R"(num_gpu_blocks: invalid type: string "x", expected usize at line 1 column 21)")
      << "types before names";
  EXPECT_EQ(ErrorOf(R"({"block_size":null,"engine_type":"zz","num_gpu_blocks":0})"),
            "Invalid engine_type 'zz'. Must be 'vllm', 'sglang', or 'trtllm'.")
      << "names and nulls in the order of the fields, before ranges";
  EXPECT_EQ(
      ErrorOf(R"({"num_g3_blocks":5,"num_gpu_blocks":0})"),
      R"(Failed to validate MockEngineArgs: num_gpu_blocks: Validation error: range [{"min": Number(1), "value": Number(0)}])")
      << "ranges before combinations";
  EXPECT_EQ(ErrorOf(R"({"aic_nextn":1,"aic_nextn_accept_rates":"x","num_g3_blocks":5})"),
            "Failed to validate MockEngineArgs: __all__: num_g3_blocks requires num_g2_blocks "
            "because mocker stages G3 through G2")
      << "combinations before rates";
  EXPECT_EQ(ErrorOf(R"({"speedup_ratio":1} x)"), "trailing characters at line 1 column 21");
  EXPECT_EQ(ErrorOf(R"({"preemption_mode":"x"} x)"),
            "Invalid preemption_mode: 'x'. Must be 'lifo' or 'fifo'.")
      << "bytes behind the value last";
}

// The reference breaks the line here.
TEST(EngineArgs, AMessageIsOneLineWhateverItQuotes) {
  EXPECT_EQ(ErrorOf(R"({"engine_type":"a\nb\u0001\"\\"})"),
            "Invalid engine_type 'a\\nb\\u{1}\"\\'. Must be 'vllm', 'sglang', or 'trtllm'.");
  EXPECT_EQ(ErrorOf(R"({"a\nb":1})").substr(0, 12), "a\\nb: unknow");
  EXPECT_EQ(ErrorOf(R"({"speedup_ratio":"\n\"\\"})"),
            R"(speedup_ratio: invalid type: string "\n\"\\", expected f64 at line 1 column 25)");
}

TEST(EngineArgs, AFieldGivenTwiceIsNamed) {
  EXPECT_EQ(ErrorOf(R"({"block_size": 1, "block_size": 2})"),
            "duplicate field `block_size` at line 1 column 30");
  EXPECT_EQ(ErrorOf(R"({"sglang":{"page_size":1,"page_size":2}})"),
            "sglang: duplicate field `page_size` at line 1 column 36");
}

TEST(EngineArgs, AnUnknownFieldIsNamedWhereItStands) {
  const auto error = ErrorOf("{\n  \"speedup_ratio\": 1.0,\n  \"zzz\": 1}");
  EXPECT_TRUE(error.starts_with("zzz: unknown field `zzz`, expected one of `engine_type`, "));
  EXPECT_TRUE(error.ends_with("`trtllm`, `has_perf_model` at line 3 column 7")) << error;
}

// Bounds of ours: the reference accepts these and fails later, or never serves a request.
TEST(EngineArgs, AbsurdValuesAreRefusedWithWhatIsAllowed) {
  EXPECT_EQ(ErrorOf(R"({"num_gpu_blocks":4294967295})"),
            "num_gpu_blocks must be at most 4294967294, got 4294967295");
  EXPECT_EQ(ErrorOf(R"({"block_size":1048577})"),
            "block_size must be at most 1048576, got 1048577");
  EXPECT_EQ(ErrorOf(R"({"block_size":99999999999})"),
            "block_size must be at most 4294967295, got 99999999999");
  EXPECT_EQ(ErrorOf(R"({"max_num_seqs":4294967296})"),
            "max_num_seqs must be at most 4294967295, got 4294967296");
  EXPECT_EQ(ErrorOf(R"({"dp_size":1048577})"), "dp_size must be at most 1048576, got 1048577");
  EXPECT_EQ(ErrorOf(R"({"startup_time":1e300})"),
            "startup_time must be at most 1000000, got 1e+300");
  EXPECT_EQ(ErrorOf(R"({"kv_bytes_per_token":1099511627777})"),
            "kv_bytes_per_token must be at most 1099511627776, got 1099511627777");
  EXPECT_EQ(ErrorOf(R"({"handoff_session_timeout_ms":1000000000001})"),
            "handoff_session_timeout_ms must be at most 1000000000000, got 1000000000001");
  const std::string sglang = R"({"engine_type":"sglang","sglang":)";
  EXPECT_EQ(
      ErrorOf(sglang + R"({"max_prefill_tokens":0}})"),
      R"(Failed to validate MockEngineArgs: sglang.max_prefill_tokens: Validation error: range [{"min": Number(1), "value": Number(0)}])");
  EXPECT_EQ(
      ErrorOf(sglang + R"({"schedule_conservativeness":-1}})"),
      R"(Failed to validate MockEngineArgs: sglang.schedule_conservativeness: Validation error: range [{"min": Number(0.0), "value": Number(-1.0)}])");
  EXPECT_EQ(ErrorOf(sglang + R"({"max_prefill_tokens":8},"block_size":16})"),
            "sglang.max_prefill_tokens must be at least block_size, got 8 and block_size=16");
  EXPECT_EQ(ErrorOf(R"({"sglang":{"max_prefill_tokens":0}})"), "accepted")
      << "of another engine, as in the reference";
}

// JSON has no such numbers; flags have.
TEST(EngineArgs, NumbersThatAreNoneAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto with = [](auto change) {
    EngineArguments arguments;
    change(arguments);
    return ErrorOf(arguments);
  };
  EXPECT_EQ(with([](auto& a) { a.speedup_ratio = kNan; }),
            "speedup_ratio must be finite and non-negative, got NaN");
  EXPECT_EQ(with([](auto& a) { a.decode_speedup_ratio = kInf; }),
            "decode_speedup_ratio must be finite and non-negative, got inf");
  EXPECT_EQ(with([](auto& a) { a.startup_time = -kInf; }),
            "startup_time must be finite and non-negative, got -inf");
  EXPECT_EQ(with([](auto& a) { a.kv_transfer_bandwidth = kNan; }),
            "kv_transfer_bandwidth must be finite and non-negative, got NaN");
  EXPECT_EQ(with([](auto& a) { a.gpu_memory_utilization = kNan; }),
            "gpu_memory_utilization must be finite and non-negative, got NaN");
  EXPECT_EQ(with([](auto& a) { a.bandwidth_g4_to_g2_gbps = kInf; }),
            "bandwidth_g4_to_g2_gbps must be finite and non-negative, got inf");
  EXPECT_EQ(with([](auto& a) {
              a.reasoning = ReasoningOptions{1, 2, kNan};
            }),
            "reasoning.thinking_ratio must be finite and non-negative, got NaN");
}

TEST(EngineArgs, ABandwidthOfZeroIsNoDelay) {
  EXPECT_FALSE(Parse(R"({"kv_transfer_bandwidth":0})").engine.kv_transfer_bandwidth);
  EXPECT_FALSE(Parse(R"({"kv_transfer_bandwidth":null})").engine.kv_transfer_bandwidth);
}

// M-016.
TEST(EngineArgs, HandoffCapacityIsTheRunningLimitOrTheBlocks) {
  EXPECT_EQ(HandoffCapacity(Parse("{}").engine), 256U);
  EXPECT_EQ(HandoffCapacity(Parse(R"({"max_num_seqs":null,"num_gpu_blocks":3})").engine), 3U);
}

// M-012.
TEST(EngineArgs, KvEventsNeedAPrefixCacheAndNoDecodeWorker) {
  EXPECT_TRUE(NeedsKvPublisher(Parse("{}").engine));
  EXPECT_FALSE(NeedsKvPublisher(Parse(R"({"enable_prefix_caching":false})").engine));
  EXPECT_FALSE(NeedsKvPublisher(Parse(R"({"worker_type":"decode"})").engine));
  EXPECT_TRUE(NeedsKvPublisher(Parse(R"({"worker_type":"prefill"})").engine));
}

TEST(EngineArgs, DraftsOfAWorkerAreSeededOneAfterAnother) {
  const auto args = Parse(R"({"aic_nextn":1,"aic_mtp_seed":18446744073709551615})");
  auto speculative = *args.engine.speculative;
  EXPECT_EQ(speculative.SeedOf(0, 8), 18446744073709551615U);
  EXPECT_EQ(speculative.SeedOf(1, 8), 0U) << "modulo 2^64";
  speculative.seed = 42;
  EXPECT_EQ(speculative.SeedOf(5, 8), 47U);
  EXPECT_EQ(speculative.SeedOf(3, 2), 44U) << "second worker, second rank";
  EXPECT_EQ(speculative.SeedOf(4, 2), 44U) << "third worker, first rank";
}

}  // namespace
}  // namespace understudy::mocker
