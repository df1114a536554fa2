// The process behind `understudy relay`.
#pragma once

#include "worker/config/environment.h"
#include "worker/relay/options.h"

namespace understudy::worker {

/// Runs until a signal or a failed start; gives the exit code: 0 stopped, 1 start failed.
int RunRelay(RelayPlan plan, const Environment& env);

}  // namespace understudy::worker
