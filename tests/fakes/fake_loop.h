// A Loop whose time only moves when a test says so.
#pragma once

#include "understudy/transport/loop.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace understudy::fakes {

class FakeLoop final : public transport::Loop {
 public:
  void Run() override { RunPosted(); }
  void Stop() override { stopped_ = true; }
  void Post(Task task) override { posted_.push_back(std::move(task)); }
  [[nodiscard]] bool OnThread() const override { return true; }
  void OnSignal(int, std::function<void()>) override {}
  [[nodiscard]] std::unique_ptr<transport::Timer> NewTimer() override {
    return std::make_unique<FakeTimer>(*this);
  }

  /// Runs what was posted, and what that posts.
  void RunPosted() {
    while (!posted_.empty()) {
      auto task = std::move(posted_.front());
      posted_.pop_front();
      task();
    }
  }
  /// Moves time on; timers that come due run in the order of their deadlines, posts in between.
  void Advance(Nanoseconds by) {
    const auto end = now_ + by;
    RunPosted();
    while (!due_.empty() && due_.begin()->first <= end) {
      auto first = due_.begin();
      now_ = std::max(now_, first->first);
      auto* timer = first->second;
      due_.erase(first);
      timer->Fire();
      RunPosted();
    }
    now_ = end;
  }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] std::size_t timers_armed() const { return due_.size(); }

 private:
  class FakeTimer final : public transport::Timer {
   public:
    explicit FakeTimer(FakeLoop& loop) : loop_(loop) {}
    ~FakeTimer() override { Cancel(); }
    void After(Nanoseconds delay, Task task) override {
      Cancel();
      task_ = std::move(task);
      loop_.due_.emplace(loop_.now_ + delay, this);
    }
    void Cancel() override {
      std::erase_if(loop_.due_, [this](const auto& entry) { return entry.second == this; });
      task_ = Task();
    }
    void Fire() {
      auto due = std::exchange(task_, Task());
      due();
    }

   private:
    FakeLoop& loop_;
    Task task_;
  };

  Nanoseconds now_{0};
  std::multimap<Nanoseconds, FakeTimer*> due_;
  std::deque<Task> posted_;
  bool stopped_ = false;
};

}  // namespace understudy::fakes
