// Ranks of release 1.6's golden cases.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"

#include <memory>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// Nested `engine_args` of a case as options, with the strict reference's behaviour.
[[nodiscard]] MockerOptions Golden16Options(const nlohmann::json& engine_args);

/// A rank as nested `engine_args` describe it.
class Golden16Rank {
 public:
  explicit Golden16Rank(const nlohmann::json& engine_args);
  [[nodiscard]] RankScheduler& scheduler() { return *scheduler_; }

 private:
  std::unique_ptr<EngineSetup> setup_;
  std::unique_ptr<PerfModel> fixed_;
  std::unique_ptr<RankScheduler> scheduler_;
};

}  // namespace understudy::mocker
