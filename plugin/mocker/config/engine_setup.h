// All that the ranks of one engine share.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/policy.h"
#include "plugin/mocker/scheduler/scheduler_config.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <memory>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Configuration with the policy and the timing model that it points to. Immutable; outlives the
/// ranks. Any thread.
class EngineSetup {
 public:
  /// Checks `options` and loads what they name (profiles, latency models). Errors: kInvalidConfig,
  /// one line that names the field or the file.
  [[nodiscard]] static Result<std::unique_ptr<EngineSetup>> New(const MockerOptions& options);

  [[nodiscard]] const SchedulerConfig& config() const { return config_; }
  /// For tests that look at more than an engine shows. Before any rank exists.
  [[nodiscard]] SchedulerConfig& mutable_config() { return config_; }

  /// One line each: what of the options was ignored or replaced. For the operator's log at start.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  EngineSetup(const EngineSetup&) = delete;
  EngineSetup& operator=(const EngineSetup&) = delete;

 private:
  EngineSetup() = default;

  std::unique_ptr<SchedulingPolicy> policy_;
  std::unique_ptr<PerfModel> perf_model_;
  SchedulerConfig config_;
  std::vector<std::string> warnings_;
};

}  // namespace understudy::mocker
