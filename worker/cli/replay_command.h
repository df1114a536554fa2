// Flags of `understudy replay`.
#pragma once

#include "worker/cli/flag_set.h"
#include "worker/replay/engines.h"
#include "worker/replay/options.h"

namespace understudy::worker {

/// Groups in the order in which a reader meets them, those of the engine last.
void AddReplayFlags(FlagSet& flags, ReplayFlags& given, ReplayEngineFlags& engine);

}  // namespace understudy::worker
