// One scheduler under test, with its policy and model.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/trtllm_policy.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "plugin/mocker/scheduler/rank_group.h"
#include "plugin/mocker/scheduler/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
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

/// A rank of any engine type, or several that share passes, in modelled time. `scheduler` is the
/// vLLM and TensorRT-LLM one with all it shows.
class TestRank {
 public:
  explicit TestRank(const SchedulerConfig& config, std::uint32_t rank = 0, std::uint32_t count = 1)
      : config_(Complete(config, count)), group_(config_, rank, count), outputs_(count) {
    for (PassOutput& output : outputs_) {
      places_.push_back(&output);
    }
  }

  [[nodiscard]] RankScheduler& any(std::size_t rank = 0) { return *group_.ranks()[rank]; }
  [[nodiscard]] Scheduler& scheduler() { return dynamic_cast<Scheduler&>(any()); }
  [[nodiscard]] std::size_t count() const { return outputs_.size(); }
  [[nodiscard]] bool HasWork() const { return group_.HasWork(); }

  /// Whole, with what becomes visible at its end. One without progress has no end.
  const PassOutput& Pass() {
    progressed_ = group_.RunPass(now_, places_);
    now_ += outputs_[0].duration();
    for (std::size_t i = 0; progressed_ && i < outputs_.size(); ++i) {
      CommandOutput end;
      any(i).EndPass(now_, end);
      outputs_[i].events.insert(outputs_[i].events.end(), end.events.begin(), end.events.end());
    }
    return outputs_[0];
  }
  [[nodiscard]] const PassOutput& output(std::size_t rank) const { return outputs_[rank]; }
  /// Somebody, in the latest pass.
  [[nodiscard]] bool progressed() const { return progressed_; }

  /// Waits for the next transfer. False: there is none.
  bool AwaitTransfer(std::size_t rank, CommandOutput& output) {
    const std::optional<Nanoseconds> next = group_.NextTransfer();
    if (!next) {
      return false;
    }
    now_ = std::max(now_, *next);
    any(rank).CompleteTransfers(now_, output);
    return true;
  }

  bool Cancel(RequestId id, std::size_t rank = 0) { return any(rank).Cancel(id, command_); }
  /// What cancels changed.
  [[nodiscard]] CommandOutput& command() { return command_; }
  [[nodiscard]] engine::Load load() const { return group_.ranks()[0]->load(); }

 private:
  SchedulerConfig Complete(SchedulerConfig config, std::uint32_t count) {
    config.policy = &vllm_;
    if (config.engine_type == EngineType::kTrtllm) {
      config.policy = &trtllm_;
    }
    config.perf_model = &model_;
    config.ranks_per_worker = count;
    return config;
  }

  VllmPolicy vllm_;
  TrtllmPolicy trtllm_;
  PolynomialModel model_;
  SchedulerConfig config_;
  RankGroup group_;
  std::vector<PassOutput> outputs_;
  std::vector<PassOutput*> places_;
  bool progressed_ = false;
  Nanoseconds now_{0};
  CommandOutput command_;
};

}  // namespace understudy::mocker
