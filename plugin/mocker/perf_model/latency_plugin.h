// Timing from a shared object: the host's side of understudy/mocker/latency_model_abi.h.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "understudy/base/result.h"

#include <memory>
#include <string>
#include <string_view>

namespace understudy::mocker {

/// Loads the shared object `path` (RTLD_NOW, RTLD_LOCAL), makes one model of it with `config` and
/// asks it once for a prefill and a decode. Errors: kInvalidConfig, one line with the file and what
/// is wrong: cannot be loaded, no entry function, another major version, a table that is null, too
/// small or has a null function, create's own text, or an answer that is no time. Later answers
/// that are no time are replaced by 0 (prefill) or kDecodeMsMin and counted in bad_results().
[[nodiscard]] Result<std::unique_ptr<PerfModel>> LoadLatencyPlugin(const std::string& path,
                                                                   std::string_view config);

}  // namespace understudy::mocker
