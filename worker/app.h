// Builds every object of a worker process in order, and takes it down again.
#pragma once

#include "worker/config/environment.h"
#include "worker/config/worker_options.h"

namespace understudy::worker {

/// Runs until a signal, or until start fails. Returns the exit code: 0 drained, 1 start failed, 3
/// lease lost with
/// --on-lease-loss exit.
[[nodiscard]] int RunWorker(WorkerConfig config, const Environment& env);

}  // namespace understudy::worker
