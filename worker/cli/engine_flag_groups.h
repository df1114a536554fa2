// Flags of the simulated engine.
#pragma once

#include "worker/cli/flag_set.h"
#include "worker/config/engine_flags.h"

namespace understudy::worker {

/// All of EngineFlags but those of the other two, --data-parallel-size and --extra-engine-args, in
/// groups.
void AddEngineFlags(FlagSet& flags, EngineFlags& given);

/// What a hand-off between prefill and decode workers takes.
void AddTransferFlags(FlagSet& flags, EngineFlags& given);

/// What the reference has and nothing here reads. Best the last group.
void AddIdleFlags(FlagSet& flags, EngineFlags& given);

}  // namespace understudy::worker
