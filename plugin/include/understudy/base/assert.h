// Checks of our own invariants, in all builds. Bytes from a peer never reach one.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace understudy {

[[noreturn]] inline void AssertFailed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: invariant violated: %s\n", file, line, condition);
  std::abort();
}

}  // namespace understudy

#define UNDERSTUDY_ASSERT(condition)                              \
  do {                                                            \
    if (!(condition)) {                                           \
      ::understudy::AssertFailed(#condition, __FILE__, __LINE__); \
    }                                                             \
  } while (false)
