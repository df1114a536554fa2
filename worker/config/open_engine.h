// The engine that the options ask for.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/engine/engine.h"

#include <memory>

namespace understudy::worker {

struct WorkerConfig;

/// Not started yet; its ranks are those of all workers of the process. Logs what the options leave
/// doubtful. kInvalidConfig: a latency model that cannot be read.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> OpenEngine(const WorkerConfig& config,
                                                                 const Clock& clock);

}  // namespace understudy::worker
