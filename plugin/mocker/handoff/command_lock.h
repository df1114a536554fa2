// Who may command: one at a time, the others in the order in which they came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace understudy::mocker::handoff {

/// One thread: what looks like waiting is a queue of functions. May be destroyed by one of them.
class CommandLock {
 public:
  using Turn = std::function<void()>;

  /// Runs `turn` when the lock is free, maybe at once; it holds the lock until Release. The ticket
  /// is for Withdraw.
  std::uint64_t Enter(Turn turn) {
    const std::uint64_t ticket = ++state_->last_ticket;
    state_->waiting.push_back({ticket, std::move(turn)});
    RunNext(state_);
    return ticket;
  }
  /// A turn that has not come will not come.
  void Withdraw(std::uint64_t ticket) {
    for (auto it = state_->waiting.begin(); it != state_->waiting.end(); ++it) {
      if (it->ticket == ticket) {
        const Turn gone = std::move(it->turn);  // destroyed when the queue is in order again
        state_->waiting.erase(it);
        return;
      }
    }
  }
  void Release() {
    state_->held = false;
    RunNext(state_);
  }
  [[nodiscard]] bool held() const { return state_->held; }
  [[nodiscard]] std::size_t waiting() const { return state_->waiting.size(); }

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    Turn turn;
  };
  struct State {
    std::deque<Waiting> waiting;
    std::uint64_t last_ticket = 0;
    bool held = false;
    bool running = false;
  };

  /// By value: the last turn may have held what this lock belongs to, and the lock with it.
  static void RunNext(
      std::shared_ptr<State> state) {  // NOLINT(performance-unnecessary-value-param)
    if (state->running) {
      return;  // a turn that was over at once: the loop below goes on
    }
    state->running = true;
    while (!state->held && !state->waiting.empty()) {
      const Turn turn = std::move(state->waiting.front().turn);
      state->waiting.pop_front();
      state->held = true;
      turn();
    }
    state->running = false;
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace understudy::mocker::handoff
