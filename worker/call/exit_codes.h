// How the commands that talk to running workers end.
#pragma once

#include "understudy/base/result.h"

namespace understudy::worker {

inline constexpr int kExitFailed = 1;   ///< refused, or it went wrong
inline constexpr int kExitUsage = 2;    ///< asked for in a way that cannot work
inline constexpr int kExitNothing = 4;  ///< nobody there, not reachable, or no answer in time

/// Of an error that ended a connection or a search.
[[nodiscard]] inline int ExitCodeOf(const Error& error) {
  return error.code == Errc::kInvalidConfig ? kExitUsage : kExitNothing;
}

}  // namespace understudy::worker
