#include "understudy/transport/loop.h"

#include "transport/loop/native.h"
#include "understudy/base/assert.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {
namespace {

/// asio's timer keeps a handler alive until it was run, also after cancel: the generation tells a
/// stale one.
class AsioTimer final : public Timer {
 public:
  explicit AsioTimer(asio::io_context& context) : state_(std::make_shared<State>(context)) {}
  ~AsioTimer() override { Cancel(); }

  void After(Nanoseconds delay, Task task) override {
    state_->task = std::move(task);
    const auto generation = ++state_->generation;
    state_->timer.expires_after(delay);
    state_->timer.async_wait([state = state_, generation](asio::error_code error) {
      if (!error && state->generation == generation) {
        auto due = std::exchange(state->task, Task());
        due();
      }
    });
  }

  void Cancel() override {
    ++state_->generation;
    state_->task = Task();
    state_->timer.cancel();
  }

 private:
  struct State {
    explicit State(asio::io_context& context) : timer(context) {}
    asio::steady_timer timer;
    Task task;
    std::uint64_t generation = 0;
  };
  std::shared_ptr<State>
      state_;  // shared with the pending handler, which may outlive the timer by a loop turn
};

class AsioLoop final : public Loop {
 public:
  AsioLoop() : context_(1), work_(asio::make_work_guard(context_)) {}

  void Run() override {
    thread_.store(std::this_thread::get_id());
    context_.run();
    thread_.store(std::thread::id());
  }
  void Stop() override { context_.stop(); }
  void Post(Task task) override { asio::post(context_, std::move(task)); }

  [[nodiscard]] bool OnThread() const override {
    const auto owner = thread_.load();
    return owner == std::thread::id() || owner == std::this_thread::get_id();
  }
  [[nodiscard]] std::unique_ptr<Timer> NewTimer() override {
    return std::make_unique<AsioTimer>(context_);
  }

  void OnSignal(int signal_number, std::function<void()> handler) override {
    UNDERSTUDY_ASSERT(OnThread());
    auto set = std::make_unique<asio::signal_set>(context_, signal_number);
    Arm(*set, std::make_shared<std::function<void()>>(std::move(handler)));
    signals_.push_back(std::move(set));
  }

  asio::io_context& context() { return context_; }

 private:
  static void Arm(asio::signal_set& set, std::shared_ptr<std::function<void()>> handler) {
    set.async_wait([&set, handler](asio::error_code error, int) {
      if (!error) {
        (*handler)();
        Arm(set, handler);
      }
    });
  }

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::unique_ptr<asio::signal_set>> signals_;
  std::atomic<std::thread::id> thread_{};
};

}  // namespace

std::unique_ptr<Loop> Loop::New() {
  return std::make_unique<AsioLoop>();
}

asio::io_context& NativeContext(Loop& loop) {
  return static_cast<AsioLoop&>(loop).context();  // Loop::New is the only maker
}

}  // namespace understudy::transport
