// The simulated engines of a replay.
#pragma once

#include "understudy/base/result.h"
#include "worker/config/engine_input.h"
#include "worker/replay/options.h"

#include <string>
#include <vector>

namespace understudy::worker {

/// What the flags say about every engine of the run.
struct ReplayEngineFlags {
  EngineFlags engine;  ///< extra_engine_args: JSON, or a file with it; replaces the other flags
  EngineRelease release{.flag = "--dynamo-release"};
  bool strict_reference = false;
};

/// Checks the arguments and sets the plan's engines, its GPUs per worker and what depends on them.
/// A disaggregated plan takes both engines from its own arguments when it has some, else from the
/// flags; the kind of worker follows from the pool when an argument does not say it. `warnings`
/// gets what was accepted and has no effect, one line each. Reads files. Errors: kInvalidConfig,
/// one line that names the option, the member and the value, in the reference's words where it has
/// some.
[[nodiscard]] Status SetReplayEngines(const ReplayEngineFlags& flags,
                                      ReplayPlan& plan,
                                      std::vector<std::string>& warnings);

/// `text` itself when it begins with a brace, else the content of the file of that name. Errors:
/// kInvalidConfig names `option` and the file.
[[nodiscard]] Result<std::string> JsonOrFile(const std::string& option, const std::string& text);

}  // namespace understudy::worker
