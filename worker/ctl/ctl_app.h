// Runs `understudy ctl` on a loop of its own.
#pragma once

#include "worker/config/environment.h"
#include "worker/ctl/options.h"

namespace understudy::worker {

/// Exit codes: 0 done, 1 refused or failed, 2 wrong settings, 4 nothing found, not reachable, timed
/// out.
[[nodiscard]] int RunCtl(const CtlPlan& plan, const Environment& env);

}  // namespace understudy::worker
