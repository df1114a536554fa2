// The timing model that options name.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <memory>
#include <string>
#include <vector>

namespace understudy::mocker {

struct LoadedPerfModel {
  std::unique_ptr<PerfModel> model;
  /// One line each: what was ignored or replaced. For the operator's log.
  std::vector<std::string> warnings;
};

/// `latency_model`, else `planner_profile_data`, else the polynomial model.
/// Errors: kInvalidConfig, one line that names the option, the file and what is wrong. With
/// strict_reference and 1.3's semantics a profile .npz that cannot be used is replaced by the
/// polynomial model, with a warning, as dynamo-mocker 1.3.0 does; a folder of profiling results
/// that cannot be used ends its start as well.
[[nodiscard]] Result<LoadedPerfModel> LoadPerfModel(const MockerOptions& options);

}  // namespace understudy::mocker
