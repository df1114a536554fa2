// Golden cases of release 1.6's engine, read from tests/vectors/engine-1.6.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// The stored case `name`; aborts the test program when the file is missing or no JSON.
[[nodiscard]] nlohmann::json LoadGolden16(const std::string& name);

/// Nested `engine_args` of a case as options, with the strict reference's behaviour.
[[nodiscard]] MockerOptions Golden16Options(const nlohmann::json& engine_args);

/// Events as text, so that a difference reads well.
[[nodiscard]] std::vector<std::string> TextOf(const std::vector<engine::KvEvent>& events);
[[nodiscard]] std::vector<std::string> TextOf(const nlohmann::json& events);

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
