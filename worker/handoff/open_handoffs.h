// From the worker's configuration to its hand-offs.
#pragma once

#include "understudy/base/result.h"
#include "understudy/engine/handoff.h"
#include "worker/config/worker_options.h"
#include "worker/handoff/handoff_side.h"
#include "worker/registration/registration.h"

#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// Null for aggregated workers. The ports are open, and the identities know them under `host`.
/// `engine` outlives the result. kInvalidConfig, or kUnavailable
/// with the operating system's text.
[[nodiscard]] Result<std::unique_ptr<HandoffSide>> OpenHandoffs(
    const WorkerConfig& config,
    const std::string& host,
    transport::Loop& loop,
    const Clock& clock,
    engine::Handoffs& engine,
    std::vector<WorkerIdentity>& workers);

}  // namespace understudy::worker
