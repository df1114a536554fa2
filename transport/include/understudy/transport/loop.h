// The one event loop of the process: every socket, timer and signal lives here.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/task.h"

#include <chrono>
#include <functional>
#include <memory>

namespace understudy::transport {

/// A one-shot timer. All members run on the loop's thread; destroying it cancels it.
class Timer {
 public:
  virtual ~Timer() = default;
  /// (Re)arms: `task` runs once on the loop, not before `delay` has passed. A task armed earlier is
  /// dropped.
  virtual void After(Nanoseconds delay, Task task) = 0;
  virtual void Cancel() = 0;
};

/// A single-threaded event loop over standalone asio. Steps on it are short (under 1 ms) and never
/// block.
class Loop {
 public:
  [[nodiscard]] static std::unique_ptr<Loop> New();
  virtual ~Loop() = default;

  /// Runs until Stop; the calling thread becomes the loop's thread.
  virtual void Run() = 0;
  /// Any thread: Run returns after the task under way.
  virtual void Stop() = 0;
  /// Any thread: runs `task` on the loop, in the order of the posts of one thread.
  virtual void Post(Task task) = 0;
  /// True on the thread that runs the loop (and while none runs it, so that set-up before Run is
  /// allowed).
  [[nodiscard]] virtual bool OnThread() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Timer> NewTimer() = 0;
  /// Calls `handler` on the loop for each delivery of `signal_number`, until the loop is destroyed.
  virtual void OnSignal(int signal_number, std::function<void()> handler) = 0;
};

}  // namespace understudy::transport
