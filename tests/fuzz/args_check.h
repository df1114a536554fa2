// What must hold for engine arguments that a parser has answered.
#pragma once

#include "tests/fuzz/fuzz.h"
#include "understudy/mocker/engine_args.h"

#include <string>

namespace understudy::fuzz {

/// False: refused, with one line of text. What was accepted can be simulated.
inline bool CheckArgs(const Result<mocker::EngineArgs>& args) {
  if (!args) {
    UNDERSTUDY_ASSERT(args.error().code == Errc::kInvalidConfig);
    UNDERSTUDY_ASSERT(!args.error().message.empty());
    UNDERSTUDY_ASSERT(args.error().message.find('\n') == std::string::npos);
    return false;
  }
  const auto& engine = args->engine;
  UNDERSTUDY_ASSERT(engine.block_size >= 1 && engine.num_gpu_blocks >= 1 && engine.rank_count >= 1);
  UNDERSTUDY_ASSERT(engine.speedup_ratio >= 0.0 && engine.startup_time.count() >= 0.0);
  return true;
}

}  // namespace understudy::fuzz
