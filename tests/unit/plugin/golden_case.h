// Golden cases of the simulated engine, read from tests/vectors.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// The stored case `name`; aborts the test program when the file is missing or no JSON.
[[nodiscard]] nlohmann::json LoadGoldenCase(const std::string& name,
                                            const std::string& folder = "engine");

/// Number `index` of the case's `requests`; its id is the number plus one.
[[nodiscard]] engine::Request GoldenRequest(const nlohmann::json& golden_case, std::size_t index);

/// `engine_args` of a case as options.
[[nodiscard]] MockerOptions GoldenOptions(const nlohmann::json& engine_args, bool strict_reference);

/// A rank as `engine_args` describes it.
class GoldenRank {
 public:
  GoldenRank(const nlohmann::json& engine_args, bool strict_reference);
  [[nodiscard]] RankScheduler& scheduler() { return *scheduler_; }
  [[nodiscard]] const SchedulerConfig& config() const { return setup_->config(); }

 private:
  std::unique_ptr<EngineSetup> setup_;
  std::unique_ptr<RankScheduler> scheduler_;
};

}  // namespace understudy::mocker
