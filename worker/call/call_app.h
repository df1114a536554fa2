// Runs `understudy call` on a loop of its own.
#pragma once

#include "worker/call/options.h"
#include "worker/config/environment.h"

namespace understudy::worker {

/// Exit codes: 0 done, 1 a request failed or was refused (or Ctrl-C), 2 wrong settings, 4 nothing
/// found, not reachable, timed out.
[[nodiscard]] int RunCall(const CallPlan& plan, const Environment& env);

}  // namespace understudy::worker
