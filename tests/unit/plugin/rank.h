// One scheduler under test, with its policy and model.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/trtllm_policy.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "plugin/mocker/scheduler/scheduler.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace understudy::mocker {

/// 16 blocks of 4 tokens, a budget of 64 tokens and 8 running requests, like the recorded passes.
inline SchedulerConfig SmallRank() {
  SchedulerConfig config;
  config.blocks_total = 16;
  config.block_size = 4;
  config.budget = 64;
  config.running_max = 8;
  return config;
}

/// Prompt: `prompt` ids counting up from `first_token`.
inline engine::Request MakeRequest(std::uint64_t id,
                                   std::uint32_t first_token,
                                   std::size_t prompt,
                                   std::uint32_t outputs,
                                   std::uint32_t rank = 0) {
  engine::Request request;
  request.id = RequestId{id};
  request.rank = RankIndex{rank};
  request.prompt.resize(prompt);
  std::iota(request.prompt.begin(), request.prompt.end(), first_token);
  request.output_tokens_max = outputs;
  return request;
}

/// A rank of any engine type. `scheduler` is the vLLM and TensorRT-LLM one with all it shows.
class TestRank {
 public:
  explicit TestRank(const SchedulerConfig& config, std::uint32_t rank = 0)
      : config_(Complete(config)), scheduler_(NewRankScheduler(config_, RankIndex{rank})) {}

  [[nodiscard]] RankScheduler& any() { return *scheduler_; }
  [[nodiscard]] Scheduler& scheduler() { return dynamic_cast<Scheduler&>(*scheduler_); }
  const PassOutput& Pass() {
    scheduler_->RunPass(output_);
    return output_;
  }
  bool Cancel(RequestId id) { return scheduler_->Cancel(id, command_); }
  /// What cancels changed.
  [[nodiscard]] CommandOutput& command() { return command_; }
  [[nodiscard]] engine::Load load() const { return scheduler_->load(); }

 private:
  SchedulerConfig Complete(SchedulerConfig config) {
    config.policy = &vllm_;
    if (config.engine_type == EngineType::kTrtllm) {
      config.policy = &trtllm_;
    }
    config.perf_model = &model_;
    return config;
  }

  VllmPolicy vllm_;
  TrtllmPolicy trtllm_;
  PolynomialModel model_;
  SchedulerConfig config_;
  std::unique_ptr<RankScheduler> scheduler_;
  PassOutput output_;
  CommandOutput command_;
};

}  // namespace understudy::mocker
