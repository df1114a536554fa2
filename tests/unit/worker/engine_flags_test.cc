#include "tests/fakes/server_process.h"
#include "worker/config/engine_input.h"
#include "worker/config/kv_bytes.h"

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using Texts = std::vector<std::string>;

constexpr EngineRelease k13{.semantics = mocker::SemanticsRelease::k13};

std::string ErrorOf(const EngineFlags& flags) {
  const auto args = LoadEngineArgs(flags, k13, std::nullopt);
  return args ? "accepted" : args.error().message;
}

template <class Change>
std::string ErrorWith(Change change) {
  EngineFlags flags;
  change(flags);
  return ErrorOf(flags);
}

mocker::EngineArgs Load(const EngineFlags& flags, std::optional<std::string> model = {}) {
  auto args = LoadEngineArgs(flags, k13, model);
  EXPECT_TRUE(args) << (args ? "" : args.error().message);
  return args ? std::move(*args) : mocker::EngineArgs{};
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(EngineFlags, DefaultsAreThoseOfTheReferencesCommandLine) {
  const auto args = Load({});
  EXPECT_EQ(args.engine.engine_type, mocker::EngineType::kVllm);
  EXPECT_EQ(args.engine.block_size, 64U);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_EQ(args.engine.kv_transfer_bandwidth, 64.0) << "none in JSON";
  EXPECT_TRUE(args.enable_local_indexer) << "off in JSON";
  EXPECT_FALSE(args.engine.speculative);
  EXPECT_FALSE(args.engine.reasoning);
  EXPECT_EQ(args.warnings, Texts{});
}

TEST(EngineFlags, EveryFlagArrives) {
  EngineFlags flags;
  flags.engine_type = "sglang";
  flags.num_gpu_blocks = 10;
  flags.max_num_seqs = 3;
  flags.max_num_batched_tokens = 500;
  flags.enable_prefix_caching = false;
  flags.enable_chunked_prefill = false;
  flags.preemption_mode = "fifo";
  flags.data_parallel_size = 2;
  flags.speedup_ratio = 4;
  flags.startup_time_s = 0.25;
  flags.planner_profile_data = "profile.npz";
  flags.latency_model = "model.so";
  flags.aic_nextn = 2;
  flags.aic_nextn_accept_rates = "0.5";
  flags.aic_mtp_seed = 18446744073709551615U;
  flags.reasoning =
      R"({"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5})";
  flags.response_replay_trace_path = "trace.jsonl";
  flags.sglang_schedule_policy = "lpm";
  flags.sglang_page_size = 8;
  flags.sglang_max_prefill_tokens = 80;
  flags.sglang_chunked_prefill_size = 40;
  flags.sglang_clip_max_new_tokens = 9;
  flags.sglang_schedule_conservativeness = 0.5;
  flags.kv_transfer_bandwidth = 0;
  flags.kv_transfer_timing_mode = "destination_missing";
  flags.kv_bytes_per_token = 77;
  const auto args = Load(flags);
  EXPECT_EQ(args.engine.engine_type, mocker::EngineType::kSglang);
  EXPECT_EQ(args.engine.num_gpu_blocks, 10U);
  EXPECT_EQ(args.engine.block_size, 8U);
  EXPECT_EQ(args.engine.max_num_seqs, 3U);
  EXPECT_EQ(args.engine.max_num_batched_tokens, 500U);
  EXPECT_FALSE(args.engine.enable_prefix_caching);
  EXPECT_FALSE(args.engine.enable_chunked_prefill);
  EXPECT_EQ(args.engine.preemption_mode, mocker::PreemptionMode::kFifo);
  EXPECT_EQ(args.engine.rank_count, 2U);
  EXPECT_EQ(args.engine.speedup_ratio, 4.0);
  EXPECT_EQ(args.engine.startup_time.count(), 0.25);
  EXPECT_EQ(args.engine.planner_profile_data, "profile.npz");
  EXPECT_EQ(args.engine.latency_model, "model.so");
  ASSERT_TRUE(args.engine.speculative);
  EXPECT_EQ(args.engine.speculative->accept_rates, (std::vector<double>{0.5, 0}));
  EXPECT_EQ(args.engine.speculative->seed, 18446744073709551615U);
  ASSERT_TRUE(args.engine.reasoning);
  EXPECT_EQ(args.engine.reasoning->end_token, 2U);
  EXPECT_EQ(args.response_replay_trace_path, "trace.jsonl");
  EXPECT_EQ(args.engine.sglang.schedule_policy, mocker::SglangPolicy::kLpm);
  EXPECT_EQ(args.engine.sglang.max_prefill_tokens, 80U);
  EXPECT_EQ(args.engine.sglang.chunked_prefill_size, 40U);
  EXPECT_EQ(args.engine.sglang.clip_max_new_tokens, 9U);
  EXPECT_EQ(args.engine.sglang.schedule_conservativeness, 0.5);
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth);
  EXPECT_EQ(args.engine.kv_transfer_timing, mocker::TransferTiming::kDestinationMissing);
  EXPECT_EQ(args.engine.kv_bytes_per_token, 77U);
}

// The texts of JSON, with the flag behind them.
TEST(EngineFlags, ErrorsAreThoseOfJsonAndNameTheFlag) {
  const std::string prefix = "Failed to validate MockEngineArgs: ";
  EXPECT_EQ(
      ErrorWith([](auto& f) { f.num_gpu_blocks = 0; }),
      prefix +
          R"(num_gpu_blocks: Validation error: range [{"min": Number(1), "value": Number(0)}] (--num-gpu-blocks-override))");
  EXPECT_EQ(
      ErrorWith([](auto& f) { f.speedup_ratio = -1; }),
      prefix +
          R"(speedup_ratio: Validation error: range [{"min": Number(0.0), "value": Number(-1.0)}] (--speedup-ratio))");
  EXPECT_EQ(
      ErrorWith([](auto& f) { f.aic_nextn = 9; }),
      prefix +
          R"(aic_nextn: Validation error: range [{"min": Number(1), "max": Number(5), "value": Number(9)}] (--aic-nextn))");
  EXPECT_EQ(ErrorWith([](auto& f) { f.block_size = 1; }),
            "vLLM/TRT-LLM block_size must be at least two, got 1 (--block-size)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.startup_time_s = std::numeric_limits<double>::quiet_NaN(); }),
            "startup_time must be finite and non-negative, got NaN (--startup-time)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.data_parallel_size = 5'000'000; }),
            "dp_size must be at most 1048576, got 5000000 (--data-parallel-size)");
  EXPECT_EQ(
      ErrorWith([](auto& f) { f.aic_nextn_accept_rates = "0.5"; }),
      prefix + "__all__: aic_nextn_accept_rates requires aic_nextn (--aic-nextn-accept-rates)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.aic_nextn = 1;
              f.aic_nextn_accept_rates = "bad";
            }),
            "invalid aic_nextn_accept_rates value \"bad\": invalid float literal "
            "(--aic-nextn-accept-rates)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.aic_nextn = 1;
              f.decode_speedup_ratio = 2;
            }),
            prefix +
                "__all__: aic_nextn requires decode_speedup_ratio=1.0 because MTP output "
                "acceleration is modeled by burst sampling, got 2 (--aic-nextn)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_g3_blocks = 5; }),
            prefix +
                "__all__: num_g3_blocks requires num_g2_blocks because mocker stages G3 through "
                "G2 (--num-g3-blocks)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.engine_type = "sglang";
              f.block_size = 8;
              f.sglang_page_size = 4;
            }),
            prefix +
                "__all__: engine_type=sglang requires block_size and sglang.page_size to match "
                "when both are set, got block_size=8 and sglang.page_size=4 (--engine-type)");
}

TEST(EngineFlags, NegativeCountsAreNamed) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_gpu_blocks = -1; }),
            "--num-gpu-blocks-override must not be negative, got -1");
  EXPECT_EQ(ErrorWith([](auto& f) { f.sglang_page_size = -8; }),
            "--sglang-page-size must not be negative, got -8");
  EXPECT_EQ(ErrorWith([](auto& f) { f.kv_bytes_per_token = -8; }),
            "--kv-bytes-per-token must not be negative, got -8");
}

TEST(EngineFlags, WhatOnly16HasIsRefused) {
  const std::string tail = " is a flag of release 1.6; the engine of 1.3 has no use for it";
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_host_blocks = 5; }), "--num-host-blocks" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.host_offload_h2d_bandwidth_gbps = 5; }),
            "--host-offload-h2d-bandwidth-gbps" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.ais_perf_config = "{}"; }), "--ais-perf-config" + tail);
}

TEST(EngineFlags, ALimitOfTheSequenceIsForEnginesOfBlocks) {
  EngineFlags flags;
  flags.max_model_len = 4096;
  EXPECT_EQ(Load(flags).engine.max_model_len, 4096U);
  flags.max_model_len = 0;
  EXPECT_EQ(ErrorOf(flags), "--max-model-len must be at least 1, got 0");
  flags.max_model_len = 4096;
  flags.engine_type = "sglang";
  EXPECT_EQ(ErrorOf(flags),
            "--max-model-len with --engine-type sglang needs the engine of release 1.6");
}

TEST(EngineFlags, ReasoningThatIsNoneIsNamed) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.reasoning = "{}"; }),
            "--reasoning: missing field `start_thinking_token_id` at line 1 column 2");
  EXPECT_EQ(ErrorWith([](auto& f) { f.reasoning = "x"; }),
            "--reasoning: expected value at line 1 column 1");
  EXPECT_EQ(ErrorWith([](auto& f) { f.reasoning = ""; }), "accepted") << "as not given";
}

TEST(EngineFlags, APerformanceModelThatIsNotHereIsRefusedUnlessAnotherTakesItsPlace) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.aic_perf_model = true; }),
            "--aic-perf-model 'vllm': there is no AIC performance model here; give "
            "--latency-model, or leave it out");
  EXPECT_EQ(ErrorWith([](auto& f) { f.aic_backend = "trtllm"; }), "accepted")
      << "without --aic-perf-model it says nothing, as in the reference";
  EngineFlags flags;
  flags.aic_perf_model = true;
  flags.aic_backend = "trtllm";
  flags.aic_tp_size = 4;
  flags.latency_model = "times.json";
  const auto args = Load(flags);
  EXPECT_EQ(args.aic.backend, "trtllm");
  EXPECT_EQ(mocker::GpusPerWorker(args.aic), 4U);
}

class EngineArgsFile : public ::testing::Test {
 protected:
  EngineFlags Flags(const std::string& json) {
    Write(path_, json);
    EngineFlags flags;
    flags.extra_engine_args = path_;
    return flags;
  }
  fakes::TempDir folder_;
  const std::string path_ = folder_.path() + "/args.json";
  const std::string name_ = "--extra-engine-args " + path_ + ": ";
};

TEST_F(EngineArgsFile, ReplacesAllFlags) {
  auto flags = Flags(R"({"engine_type":"trtllm","max_num_seqs":null})");
  flags.engine_type = "sglang";
  flags.num_gpu_blocks = 5;
  flags.reasoning = "not even JSON";
  const auto args = Load(flags);
  EXPECT_EQ(args.engine.engine_type, mocker::EngineType::kTrtllm);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_FALSE(args.engine.max_num_seqs);
  EXPECT_FALSE(args.enable_local_indexer);
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth);
}

TEST_F(EngineArgsFile, LeavesWhatItsJsonCannotHoldToFlags) {
  auto flags = Flags(R"({"kv_bytes_per_token":5,"aic_backend":"vllm"})");
  flags.latency_model = "times.json";
  EXPECT_EQ(Load(flags).engine.kv_bytes_per_token, 5U);
  flags.kv_bytes_per_token = 7;
  const auto args = Load(flags);
  EXPECT_EQ(args.engine.kv_bytes_per_token, 7U);
  EXPECT_EQ(args.engine.latency_model, "times.json");
}

TEST_F(EngineArgsFile, InTheFormOf16IsToldWhichOneIsMeant) {
  EXPECT_EQ(ErrorOf(Flags(R"({"engine":{"block_size":16}})")),
            name_ +
                "Failed to parse MockEngineArgs JSON: these are nested arguments, of release 1.6: "
                "give --engine-semantics 1.6, or flat ones, like {\"engine_type\": \"vllm\", "
                "\"block_size\": 16}");
}

TEST_F(EngineArgsFile, ErrorsNameTheFile) {
  EXPECT_EQ(ErrorOf(Flags(R"({"speedup_ratio":"x"})")),
            name_ +
                "Failed to parse MockEngineArgs JSON: speedup_ratio: invalid type: string \"x\", "
                "expected f64 at line 1 column 20");
  EXPECT_EQ(ErrorOf(Flags("[]")), name_ + "extra engine args must be a JSON object");
  EXPECT_EQ(ErrorOf(Flags("")),
            name_ +
                "Failed to parse MockEngineArgs JSON: EOF while parsing a value at line 1 column "
                "0");
  EXPECT_EQ(ErrorOf(Flags(R"({"aic_backend":"vllm"})")),
            "aic_backend 'vllm': there is no AIC performance model here; give --latency-model, or "
            "leave it out");
  EXPECT_EQ(ErrorOf(Flags(std::string((1 << 20) + 1, ' '))), name_ + "has more than 1048576 bytes");
  EngineFlags missing;
  missing.extra_engine_args = folder_.path() + "/none.json";
  EXPECT_EQ(ErrorOf(missing),
            "--extra-engine-args " + *missing.extra_engine_args +
                ": cannot be read: No such file or directory");
  missing.extra_engine_args = folder_.path();
  EXPECT_EQ(ErrorOf(missing),
            "--extra-engine-args " + folder_.path() + ": cannot be read: Is a directory");
}

class KvBytes : public ::testing::Test {
 protected:
  std::string Of(const std::string& config, const std::string& dtype = "auto") {
    Write(folder_.path() + "/config.json", config);
    const auto bytes = KvBytesPerToken(folder_.path(), dtype);
    return bytes ? std::to_string(*bytes) : bytes.error().message;
  }
  fakes::TempDir folder_;
};

// layers * 2 * KV heads * (hidden / heads) * bytes of the type.
TEST_F(KvBytes, AreThoseOfKeysAndValuesOfAllLayers) {
  const std::string shape = R"("num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4)";
  EXPECT_EQ(Of("{" + shape + R"(,"num_key_value_heads":2,"torch_dtype":"bfloat16"})"), "256");
  EXPECT_EQ(Of("{" + shape + R"(,"num_kv_heads":1,"dtype":"torch.float32"})"), "256");
  EXPECT_EQ(Of("{" + shape + "}"), "512") << "as many KV heads as heads, two bytes";
  EXPECT_EQ(Of("{" + shape + R"(,"dtype":"float32"})", "fp8"), "256");
  EXPECT_EQ(Of("{" + shape + R"(,"dtype":"other"})"), "512");
  EXPECT_EQ(Of("{" + shape + R"(,"num_key_value_heads":null,"dtype":null})"), "512");
}

TEST_F(KvBytes, WhatIsMissingOrAbsurdIsNamed) {
  EXPECT_EQ(Of("{}"),
            "config.json: num_hidden_layers must be a number between 1 and 32768, it is missing");
  EXPECT_EQ(Of(R"({"num_hidden_layers":-2})"),
            "config.json: num_hidden_layers must be a number between 1 and 32768, got -2");
  EXPECT_EQ(Of(R"({"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":0})"),
            "config.json: num_attention_heads must be a number between 1 and 32768, got 0");
  EXPECT_EQ(Of("nope"), "config.json is not a JSON object");
  const auto missing = KvBytesPerToken(folder_.path() + "/none", "auto");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "config.json: cannot be read: No such file or directory");
}

TEST_F(KvBytes, FillTheArgumentUnlessAFlagSaysIt) {
  const std::string model = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/data/tiny-model";
  EXPECT_EQ(Load({}, model).engine.kv_bytes_per_token, 256U);
  EngineFlags flags;
  flags.kv_bytes_per_token = 9;
  EXPECT_EQ(Load(flags, model).engine.kv_bytes_per_token, 9U);
  const auto args = Load({}, folder_.path());
  EXPECT_FALSE(args.engine.kv_bytes_per_token);
  EXPECT_EQ(args.warnings,
            Texts{"Could not compute kv_bytes_per_token from model config: config.json: cannot be "
                  "read: No such file or directory"});
}

}  // namespace
}  // namespace understudy::worker
