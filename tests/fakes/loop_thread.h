// A Loop on a thread of its own, so that a test's main thread can wait for what happens there.
#pragma once

#include "understudy/base/assert.h"
#include "understudy/transport/loop.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

namespace understudy::fakes {

/// Waits for `future`, and ends the process when a minute has passed: a hang shows as a failure
/// with a name.
template <class T>
T Await(std::future<T> future) {
  const bool ready = future.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  UNDERSTUDY_ASSERT(ready && "a result that a test waits for");
  return future.get();
}

class LoopThread {
 public:
  LoopThread() : loop_(transport::Loop::New()), thread_([this] { loop_->Run(); }) {}
  ~LoopThread() {
    loop_->Stop();
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  [[nodiscard]] transport::Loop& loop() { return *loop_; }

  /// Runs `function` on the loop and gives back what it returned. Not from the loop itself.
  template <class F>
  auto Do(F function) -> std::invoke_result_t<F&> {
    using Value = std::invoke_result_t<F&>;
    std::packaged_task<Value()> task(std::move(function));
    auto future = task.get_future();
    loop_->Post([&task] { task(); });
    return Await(std::move(future));
  }

  /// `start(done)` runs on the loop; gives back what `done` was called with.
  template <class T, class Start>
  T Ask(Start start) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    loop_->Post([promise, start = std::move(start)]() mutable {
      start([promise](T value) { promise->set_value(std::move(value)); });
    });
    return Await(std::move(future));
  }

 private:
  std::unique_ptr<transport::Loop> loop_;
  std::thread thread_;
};

}  // namespace understudy::fakes
