// Runs an offline replay from a checked plan to its reports.
#pragma once

#include "worker/replay/options.h"
#include "worker/replay/run_info.h"

namespace understudy::worker {

/// Blocks until the run is over and its reports are written. The plan's engines are set. Takes
/// SIGINT and SIGTERM meanwhile: the run stops and what was done is reported; a second signal ends
/// the process at once. Returns the exit code: 0 done, 1 the trace, the configuration or an output
/// file is bad (one line on standard error, no report), 130 and 143 after SIGINT and SIGTERM.
[[nodiscard]] int RunReplayPlan(const ReplayPlan& plan, const ReplayRunInfo& info);

}  // namespace understudy::worker
