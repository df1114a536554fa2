// Workers of release 1.6's golden cases.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/scheduler/rank_group.h"

#include <memory>

#include <nlohmann/json.hpp>

namespace understudy::mocker {

/// Nested `engine_args` of a case as options.
[[nodiscard]] MockerOptions Golden16Options(const nlohmann::json& engine_args, bool strict);

/// A worker as nested `engine_args` describe it.
class Golden16Worker {
 public:
  explicit Golden16Worker(const nlohmann::json& engine_args, bool strict = true);
  [[nodiscard]] RankGroup& group() { return *group_; }
  [[nodiscard]] RankScheduler& rank(std::size_t index) { return *group_->ranks().at(index); }

 private:
  std::unique_ptr<EngineSetup> setup_;
  std::unique_ptr<RankGroup> group_;
};

}  // namespace understudy::mocker
