#include "worker/replay/engines.h"

#include "tests/fakes/server_process.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

struct Engines {
  ReplayPlan plan;
  ReplayEngineFlags flags;
  std::vector<std::string> warnings;

  std::string Set() {
    const auto set = SetReplayEngines(flags, plan, warnings);
    return set ? "set" : set.error().message;
  }
};

/// Of release 1.3, whose arguments are flat.
Engines Of13() {
  Engines engines;
  engines.flags.release.semantics = mocker::SemanticsRelease::k13;
  return engines;
}

TEST(ReplayEngines, ComeFromTheFlags) {
  Engines engines;
  engines.flags.engine.engine_type = "trtllm";
  engines.flags.engine.num_gpu_blocks = 100;
  engines.plan.gpus_per_worker = 4;
  engines.flags.strict_reference = true;
  engines.plan.options.seed = 7;
  ASSERT_EQ(engines.Set(), "set");
  const auto& o = engines.plan.options;
  ASSERT_TRUE(o.engine);
  EXPECT_EQ(o.engine->semantics, mocker::SemanticsRelease::k16);
  EXPECT_EQ(o.engine->engine_type, mocker::EngineType::kTrtllm);
  EXPECT_EQ(o.engine->num_gpu_blocks, 100U);
  EXPECT_EQ(o.engine->block_size, 32U);
  EXPECT_TRUE(o.engine->strict_reference);
  EXPECT_EQ(o.engine->seed, 7U);
  EXPECT_EQ(o.gpus_per_worker, 4U);
  EXPECT_EQ(engines.plan.synthetic.block_size, 32U);
  EXPECT_TRUE(engines.plan.synthetic.merge_prefix_groups);
}

TEST(ReplayEngines, ComeFromJsonOrFromAFileWithIt) {
  const fakes::TempDir folder;
  const auto path = folder.path() + "/engine.json";
  std::ofstream(path) << "{\"block_size\": 16}";
  for (const auto& text : {std::string(" {\"block_size\": 16}"), path}) {
    Engines engines = Of13();
    engines.flags.engine.num_gpu_blocks = 100;
    engines.flags.engine.extra_engine_args = text;
    ASSERT_EQ(engines.Set(), "set");
    EXPECT_EQ(engines.plan.options.engine->block_size, 16U);
    EXPECT_EQ(engines.plan.options.engine->num_gpu_blocks, 16384U);  // the JSON replaces the flags
  }
}

TEST(ReplayEngines, OfBothPoolsComeFromTheFlagsOrFromTheirOwnArguments) {
  Engines engines = Of13();
  engines.plan.disaggregated = true;
  engines.flags.engine.max_num_seqs = 5;
  ASSERT_EQ(engines.Set(), "set");
  EXPECT_FALSE(engines.plan.options.engine);
  EXPECT_EQ(engines.plan.options.prefill_engine->worker_type, mocker::WorkerType::kPrefill);
  EXPECT_EQ(engines.plan.options.decode_engine->worker_type, mocker::WorkerType::kDecode);
  EXPECT_EQ(engines.plan.options.decode_engine->max_num_seqs, 5U);
  engines.plan.prefill_engine_args = R"({"max_num_seqs": 2, "aic_tp_size": 2})";
  engines.plan.decode_engine_args = R"({"worker_type": "decode"})";
  ASSERT_EQ(engines.Set(), "set");
  EXPECT_EQ(engines.plan.options.prefill_engine->max_num_seqs, 2U);
  EXPECT_EQ(engines.plan.options.prefill_engine->worker_type, mocker::WorkerType::kPrefill);
  EXPECT_EQ(engines.plan.options.gpus_per_prefill_worker, 2U);
  EXPECT_EQ(engines.plan.options.decode_engine->max_num_seqs, 256U);
  engines.flags.engine.extra_engine_args = "{}";
  EXPECT_EQ(engines.Set(),
            "--extra-engine-args cannot be combined with --prefill-engine-args and "
            "--decode-engine-args");
}

TEST(ReplayEngines, AreRefusedByOptionMemberAndValue) {
  Engines engines = Of13();
  engines.flags.engine.num_gpu_blocks = 0;
  EXPECT_NE(engines.Set().find("--num-gpu-blocks-override"), std::string::npos) << engines.Set();
  engines.flags.engine.extra_engine_args = R"({"engine_type": "tgi"})";
  EXPECT_EQ(engines.Set(),
            "--extra-engine-args: Invalid engine_type 'tgi'. Must be 'vllm', 'sglang', or "
            "'trtllm'.");
  engines.flags.engine.extra_engine_args = "no-such-file";
  EXPECT_EQ(engines.Set(),
            "--extra-engine-args 'no-such-file' is no JSON object, and as a file: cannot be read: "
            "No such file or directory");
  engines.flags.engine.extra_engine_args = R"({"aic_backend": "vllm"})";
  EXPECT_EQ(engines.Set(),
            "--extra-engine-args: aic_backend 'vllm': there is no AIC performance model here; give "
            "--latency-model, or leave it out");
}

/// With these arguments for all workers, or for prefill and decode workers.
void Set16(const std::vector<std::string>& arguments, Engines& engines) {
  if (arguments.size() == 1) {
    engines.flags.engine.extra_engine_args = arguments[0];
    return;
  }
  engines.plan.disaggregated = true;
  engines.plan.prefill_engine_args = arguments[0];
  engines.plan.decode_engine_args = arguments[1];
}

TEST(ReplayEngines, OfRelease16ComeFromNestedArguments) {
  Engines engines;
  Set16({R"({"engine": {"backend": "sglang", "block_size": 16}, "dp_size": 2})"}, engines);
  ASSERT_EQ(engines.Set(), "set");
  EXPECT_EQ(engines.plan.options.engine->semantics, mocker::SemanticsRelease::k16);
  EXPECT_EQ(engines.plan.options.engine->engine_type, mocker::EngineType::kSglang);
  EXPECT_EQ(engines.plan.options.gpus_per_worker, 2U) << "one of each rank";
  EXPECT_EQ(engines.plan.synthetic.block_size, 16U);
  Set16({R"({"block_size": 16})"}, engines);
  EXPECT_EQ(engines.Set(),
            "--extra-engine-args: these are flat arguments, of release 1.3: give --dynamo-release "
            "1.3, or nested ones, like {\"engine\": {\"backend\": \"vllm\", \"block_size\": 16}}");
}

TEST(ReplayEngines, Of16InPoolsAreWhatTheirPoolIs) {
  Engines engines;
  Set16({"{}", R"({"engine": {"worker_type": "aggregated"}})"}, engines);
  ASSERT_EQ(engines.Set(), "set");
  EXPECT_EQ(engines.plan.options.prefill_engine->worker_type, mocker::WorkerType::kPrefill);
  EXPECT_EQ(engines.plan.options.decode_engine->worker_type, mocker::WorkerType::kAggregated)
      << "it said so, and the run refuses it";
}

TEST(ReplayEngines, TellWhatHasNoEffectOnce) {
  Engines engines = Of13();
  engines.plan.disaggregated = true;
  const std::string json =
      R"({"num_g2_blocks": 10, "response_replay_trace_path": "answers.jsonl"})";
  engines.flags.engine.extra_engine_args = json;
  ASSERT_EQ(engines.Set(), "set");
  ASSERT_EQ(engines.warnings.size(), 2U);
  EXPECT_NE(engines.warnings[0].find("num_g2_blocks"), std::string::npos);
  EXPECT_NE(engines.warnings[1].find("response_replay_trace_path"), std::string::npos);
}

}  // namespace
}  // namespace understudy::worker
