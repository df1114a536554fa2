// Golden cases of the simulated engine, read from tests/vectors/engine.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "plugin/mocker/scheduler/scheduler.h"

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// The stored case `name`; aborts the test program when the file is missing or no JSON.
[[nodiscard]] nlohmann::json LoadGoldenCase(const std::string& name);

/// A rank as `engine_args` describes it. Owns policy and model.
class GoldenRank {
 public:
  GoldenRank(const nlohmann::json& engine_args, bool strict_reference);
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] const SchedulerConfig& config() const { return config_; }

 private:
  VllmPolicy policy_;
  PolynomialModel model_;
  SchedulerConfig config_;
  Scheduler scheduler_;
};

}  // namespace understudy::mocker
