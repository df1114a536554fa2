// The flags of 1.6: each row of engine-1.6.md 1.4.
#include "tests/fakes/server_process.h"
#include "worker/config/engine_input.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using Texts = std::vector<std::string>;

constexpr EngineRelease k16{.semantics = mocker::SemanticsRelease::k16};

mocker::EngineArgs Load(const EngineFlags& flags, const std::optional<std::string>& model = {}) {
  auto args = LoadEngineArgs(flags, k16, model);
  EXPECT_TRUE(args) << (args ? "" : args.error().message);
  return args ? std::move(*args) : mocker::EngineArgs{};
}

template <class Change>
mocker::EngineArgs With(Change change) {
  EngineFlags flags;
  change(flags);
  return Load(flags);
}

template <class Change>
std::string ErrorWith(Change change) {
  EngineFlags flags;
  change(flags);
  const auto args = LoadEngineArgs(flags, k16, std::nullopt);
  return args ? "accepted" : args.error().message;
}

TEST(EngineConfigFlags, DefaultsAreThoseOfTheReferencesCommandLine) {
  const auto args = Load({});
  EXPECT_EQ(args.engine.semantics, mocker::SemanticsRelease::k16);
  EXPECT_EQ(args.engine.engine_type, mocker::EngineType::kVllm);
  EXPECT_EQ(args.engine.block_size, 64U);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_FALSE(args.engine.max_model_len);
  EXPECT_FALSE(args.engine.kv_transfer_bandwidth) << "64 in 1.3";
  EXPECT_TRUE(args.enable_local_indexer) << "off in JSON";
  EXPECT_FALSE(args.engine.host_offload);
  EXPECT_EQ(args.warnings, Texts{});
}

TEST(EngineConfigFlags, EveryFlagArrives) {
  const auto args = With([](EngineFlags& f) {
    f.engine_type = "sglang";
    f.num_gpu_blocks = 10;
    f.block_size = 8;
    f.max_model_len = 512;
    f.max_num_seqs = 3;
    f.max_num_batched_tokens = 500;
    f.enable_prefix_caching = false;
    f.preemption_mode = "fifo";
    f.data_parallel_size = 2;
    f.speedup_ratio = 4;
    f.startup_time_s = 0.25;
    f.latency_model = "model.so";
    f.aic_nextn = 2;
    f.aic_nextn_accept_rates = "0.5";
    f.aic_mtp_seed = 18446744073709551615U;
    f.reasoning = R"({"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5})";
    f.response_replay_trace_path = "trace.jsonl";
    f.sglang_schedule_policy = "lpm";
    f.sglang_max_prefill_tokens = 80;
    f.sglang_chunked_prefill_size = 40;
    f.sglang_clip_max_new_tokens = 9;
    f.sglang_schedule_conservativeness = 0.5;
    f.kv_transfer_bandwidth = 100;
    f.kv_transfer_timing_mode = "destination_missing";
    f.kv_bytes_per_token = 77;
  });
  const auto& engine = args.engine;
  EXPECT_EQ(engine.engine_type, mocker::EngineType::kSglang);
  EXPECT_EQ(engine.num_gpu_blocks, 10U);
  EXPECT_EQ(engine.block_size, 8U);
  EXPECT_EQ(engine.max_model_len, 512U);
  EXPECT_EQ(engine.max_num_seqs, 3U);
  EXPECT_EQ(engine.max_num_batched_tokens, 500U);
  EXPECT_FALSE(engine.enable_prefix_caching);
  EXPECT_EQ(engine.preemption_mode, mocker::PreemptionMode::kFifo);
  EXPECT_EQ(engine.rank_count, 2U);
  EXPECT_EQ(engine.speedup_ratio, 4.0);
  EXPECT_EQ(engine.startup_time.count(), 0.25);
  EXPECT_EQ(engine.latency_model, "model.so");
  ASSERT_TRUE(engine.speculative);
  EXPECT_EQ(engine.speculative->accept_rates, (std::vector<double>{0.5, 0}));
  EXPECT_EQ(engine.speculative->seed, 18446744073709551615U);
  ASSERT_TRUE(engine.reasoning);
  EXPECT_EQ(engine.reasoning->end_token, 2U);
  EXPECT_EQ(args.response_replay_trace_path, "trace.jsonl");
  EXPECT_EQ(engine.sglang.schedule_policy, mocker::SglangPolicy::kLpm);
  EXPECT_EQ(engine.sglang.max_prefill_tokens, 80U);
  EXPECT_EQ(engine.sglang.chunked_prefill_size, 40U);
  EXPECT_EQ(engine.sglang.clip_max_new_tokens, 9U);
  EXPECT_EQ(engine.sglang.schedule_conservativeness, 0.5);
  EXPECT_EQ(engine.kv_transfer_bandwidth, 100.0);
  EXPECT_EQ(engine.kv_transfer_timing, mocker::TransferTiming::kDestinationMissing);
  EXPECT_EQ(engine.kv_bytes_per_token, 77U);
  EXPECT_FALSE(engine.kv_cache_bytes_per_token) << "of a tier in host memory only";
  EXPECT_FALSE(
      With([](EngineFlags& f) { f.enable_chunked_prefill = false; }).engine.enable_chunked_prefill);
}

// The texts of JSON, with the flag behind them.
TEST(EngineConfigFlags, ErrorsAreThoseOfJsonAndNameTheFlag) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_gpu_blocks = 0; }),
            "num_gpu_blocks must be positive (--num-gpu-blocks-override)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.block_size = 0; }),
            "block_size must be positive (--block-size)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.block_size = 1; }),
            "vLLM/TRT-LLM block_size must be at least two (--block-size)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.max_model_len = 0; }),
            "max_model_len must be positive (--max-model-len)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.max_model_len = -1; }),
            "--max-model-len must not be negative, got -1");
  EXPECT_EQ(ErrorWith([](auto& f) { f.speedup_ratio = -1; }),
            "speedup_ratio must be finite and non-negative (--speedup-ratio)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.aic_nextn = 9; }),
            "aic_nextn must be in 1..=5, got 9 (--aic-nextn)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.engine_type = "sglang";
              f.enable_chunked_prefill = false;
            }),
            "enable_chunked_prefill=false is not supported for backend=sglang "
            "(--no-enable-chunked-prefill)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.kv_bytes_per_token = 0; }),
            "kv_transfer_bytes_per_token must be positive (--kv-bytes-per-token)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.kv_transfer_bandwidth = -1; }),
            "kv_transfer_bandwidth must be finite and non-negative (--kv-transfer-bandwidth)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.reasoning =
                  R"({"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":1.5})";
            }),
            R"(thinking_ratio: Validation error: range [{"min": Number(0.0), )"
            R"("max": Number(1.0), "value": Number(1.5)}] (--reasoning))")
      << "a warning in 1.3";
}

TEST(EngineConfigFlags, HostBlocksAreAsLargeAsAHandoffCountsThem) {
  const auto args = With([](EngineFlags& f) {
    f.num_host_blocks = 10;
    f.host_offload_d2h_bandwidth_gbps = 1;
    f.kv_bytes_per_token = 1024;
  });
  ASSERT_TRUE(args.engine.host_offload);
  EXPECT_EQ(args.engine.host_offload->num_host_blocks, 10U);
  EXPECT_EQ(args.engine.host_offload->d2h_bandwidth_gbps, 1.0);
  EXPECT_EQ(args.engine.host_offload->h2d_bandwidth_gbps, 32.0);
  EXPECT_EQ(args.engine.kv_cache_bytes_per_token, 1024U);
  EXPECT_EQ(args.engine.kv_bytes_per_token, 1024U);
  EngineFlags flags;
  flags.num_host_blocks = 10;
  const std::string model = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/data/tiny-model";
  EXPECT_EQ(Load(flags, model).engine.kv_cache_bytes_per_token, 256U) << "from the model";
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_host_blocks = 10; }),
            "native_host_offload requires kv_cache_bytes_per_token to derive the physical host "
            "block size (--num-host-blocks)");
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.num_host_blocks = 0;
              f.kv_bytes_per_token = 1;
            }),
            "native_host_offload.num_host_blocks must be positive (--num-host-blocks)");
  EXPECT_EQ(ErrorWith([](auto& f) { f.host_offload_h2d_bandwidth_gbps = 5; }),
            "--host-offload-* flags require --num-host-blocks");
}

TEST(EngineConfigFlags, ThePageSizeIsAnOldNameOfTheBlockSize) {
  const auto sglang = With([](EngineFlags& f) {
    f.engine_type = "sglang";
    f.sglang_page_size = 16;
  });
  EXPECT_EQ(sglang.engine.block_size, 16U);
  EXPECT_EQ(sglang.warnings, Texts{"--sglang-page-size is deprecated, use --block-size"});
  EXPECT_EQ(With([](EngineFlags& f) { f.sglang_page_size = 16; }).engine.block_size, 64U)
      << "of SGLang only";
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.engine_type = "sglang";
              f.sglang_page_size = 16;
              f.block_size = 8;
            }),
            "--sglang-page-size and --block-size must match, got 16 and 8");
}

TEST(EngineConfigFlags, FcfsIsAnOldNameOfFifo) {
  const auto args = With([](EngineFlags& f) {
    f.engine_type = "sglang";
    f.sglang_schedule_policy = "fcfs";
  });
  EXPECT_EQ(args.engine.sglang.schedule_policy, mocker::SglangPolicy::kFifo);
  EXPECT_EQ(args.warnings, Texts{"--sglang-schedule-policy fcfs is deprecated, use fifo"});
}

TEST(EngineConfigFlags, APlannerProfileThatIsNotThereEndsTheStart) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.planner_profile_data = "missing.npz"; }),
            "Failed to open NPZ file: \"missing.npz\": No such file or directory (os error 2)");
  const std::string path =
      std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/perf_small.npz";
  EXPECT_EQ(
      With([&](EngineFlags& f) { f.planner_profile_data = path; }).engine.planner_profile_data,
      path);
}

TEST(EngineConfigFlags, APerformanceModelThatIsNotHereIsRefusedUnlessAnotherTakesItsPlace) {
  EXPECT_EQ(ErrorWith([](auto& f) { f.aic_perf_model = true; }),
            "--aic-perf-model 'ais': there is no AIC performance model here; give --latency-model, "
            "or leave it out");
  EXPECT_EQ(ErrorWith([](auto& f) { f.aic_backend = "trtllm"; }), "accepted")
      << "without --ais-perf-model it says nothing, as in the reference";
  const auto args = With([](EngineFlags& f) {
    f.aic_perf_model = true;
    f.aic_tp_size = 4;
    f.latency_model = "times.json";
  });
  EXPECT_EQ(mocker::GpusPerWorker(args.aic), 4U);
}

// Texts of the reference's command line.
TEST(EngineConfigFlags, OneDescriptionOfThePerformanceModelIsEnough) {
  const std::string both = "--ais-perf-config cannot be combined with flat AIS/AIC identity flags";
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.ais_perf_config = "{}";
              f.aic_perf_model = true;
            }),
            both);
  EXPECT_EQ(ErrorWith([](auto& f) {
              f.ais_perf_config = "{}";
              f.aic_nextn = 2;
            }),
            both);
  for (const bool config : {true, false}) {
    EXPECT_EQ(ErrorWith([config](auto& f) {
                f.planner_profile_data = "profile.npz";
                if (config) {
                  f.ais_perf_config = "{}";
                } else {
                  f.aic_perf_model = true;
                }
              }),
              "choose one timing provider: AIS or planner_profile_data");
  }
}

TEST(EngineConfigFlags, BothSpellingsOfAnOptionAreRefused) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const auto checked = CheckSpellings(arguments);
    return checked ? "accepted" : checked.error().message;
  };
  EXPECT_EQ(error({"--ais-tp-size", "2", "--aic-nextn=3"}), "accepted");
  EXPECT_EQ(error({"--aic-tp-size", "2", "--aic-tp-size=3"}), "accepted");
  EXPECT_EQ(error({"--ais-tp-size", "2", "--aic-tp-size=3"}),
            "--ais-tp-size and its legacy --aic spelling cannot be combined");
}

TEST(EngineConfigFlags, WhatIsGoneIsRefused) {
  const std::string tail =
      " is a flag of release 1.3; in 1.6 --num-host-blocks and --host-offload-* describe the tier "
      "in host memory";
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_g2_blocks = 5; }), "--num-g2-blocks" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.num_g3_blocks = 5; }), "--num-g3-blocks" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.enable_g4_storage = true; }), "--enable-g4-storage" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.offload_batch_size = 5; }), "--offload-batch-size" + tail);
  EXPECT_EQ(ErrorWith([](auto& f) { f.bandwidth_g2_to_g4_gbps = 5; }),
            "--bandwidth-g2-to-g4-gbps" + tail);
}

class EngineConfigFile : public ::testing::Test {
 protected:
  EngineFlags Flags(const std::string& json) {
    std::ofstream(path_, std::ios::binary) << json;
    EngineFlags flags;
    flags.extra_engine_args = path_;
    return flags;
  }
  std::string ErrorOf(const std::string& json) {
    const auto args = LoadEngineArgs(Flags(json), k16, std::nullopt);
    return args ? "accepted" : args.error().message;
  }
  fakes::TempDir folder_;
  const std::string path_ = folder_.path() + "/args.json";
  const std::string name_ = "--extra-engine-args " + path_ + ": ";
};

TEST_F(EngineConfigFile, ReplacesAllFlags) {
  auto flags = Flags(R"({"engine":{"backend":"trtllm","max_num_seqs":null}})");
  flags.engine_type = "sglang";
  flags.num_gpu_blocks = 5;
  flags.reasoning = "not even JSON";
  const auto args = Load(flags);
  EXPECT_EQ(args.engine.engine_type, mocker::EngineType::kTrtllm);
  EXPECT_EQ(args.engine.num_gpu_blocks, 16384U);
  EXPECT_FALSE(args.engine.max_num_seqs);
  EXPECT_FALSE(args.enable_local_indexer);
}

TEST_F(EngineConfigFile, LeavesTheBytesOfAHandoffToTheFlag) {
  auto flags = Flags(R"({"engine":{"kv_bytes_per_token":5,"kv_cache_bytes_per_token":6,
                                   "native_host_offload":{"num_host_blocks":3}}})");
  EXPECT_EQ(Load(flags).engine.kv_bytes_per_token, 5U);
  flags.kv_bytes_per_token = 7;
  EXPECT_EQ(Load(flags).engine.kv_bytes_per_token, 7U);
  EXPECT_EQ(Load(flags).engine.kv_cache_bytes_per_token, 6U) << "the file's own business";
}

TEST_F(EngineConfigFile, ErrorsNameTheFile) {
  EXPECT_EQ(ErrorOf(R"({"engine":{"speedup_ratio":"x"}})"),
            name_ +
                "invalid engine launch config: engine.speedup_ratio: invalid type: string \"x\", "
                "expected f64");
  EXPECT_EQ(ErrorOf(R"({"engine":{"num_gpu_blocks":0}})"),
            name_ + "num_gpu_blocks must be positive");
  EXPECT_EQ(ErrorOf(R"({"engine":{"timing_model":{"type":"external","provider":"ais"}}})"),
            "engine.timing_model 'ais': there is no AIC performance model here; give "
            "--latency-model, or leave it out");
}

TEST_F(EngineConfigFile, InTheFormOf13IsToldWhichOneIsMeant) {
  EXPECT_EQ(ErrorOf(R"({"block_size":16})"),
            name_ +
                "these are flat arguments, of release 1.3: give --engine-semantics 1.3, or nested "
                "ones, like {\"engine\": {\"backend\": \"vllm\", \"block_size\": 16}}");
}

}  // namespace
}  // namespace understudy::worker
