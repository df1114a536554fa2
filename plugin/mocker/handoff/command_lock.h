// Who may command: one at a time, the others in the order in which they came.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace understudy::mocker::handoff {

/// One thread: what looks like waiting is a queue of functions.
class CommandLock {
 public:
  using Turn = std::function<void()>;

  /// Runs `turn` when the lock is free, maybe at once; it holds the lock until Release. The ticket
  /// is for Withdraw.
  std::uint64_t Enter(Turn turn) {
    waiting_.push_back({++last_ticket_, std::move(turn)});
    RunNext();
    return last_ticket_;
  }
  /// A turn that has not come will not come.
  void Withdraw(std::uint64_t ticket) {
    std::erase_if(waiting_, [ticket](const Waiting& w) { return w.ticket == ticket; });
  }
  void Release() {
    held_ = false;
    RunNext();
  }
  [[nodiscard]] bool held() const { return held_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    Turn turn;
  };

  void RunNext() {
    if (running_) {
      return;  // a turn that was over at once: the loop below goes on
    }
    running_ = true;
    while (!held_ && !waiting_.empty()) {
      const Turn turn = std::move(waiting_.front().turn);
      waiting_.pop_front();
      held_ = true;
      turn();
    }
    running_ = false;
  }

  std::deque<Waiting> waiting_;
  std::uint64_t last_ticket_ = 0;
  bool held_ = false;
  bool running_ = false;
};

}  // namespace understudy::mocker::handoff
