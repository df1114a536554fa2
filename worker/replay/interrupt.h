// Stopping a computation from the terminal.
#pragma once

#include <csignal>

namespace understudy::worker {

/// While it lives, the first SIGINT or SIGTERM is noted; a second one ends the process as usual.
/// One at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// 0, or the number of the signal that came.
  [[nodiscard]] int signal() const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace understudy::worker
