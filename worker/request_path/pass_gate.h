// Holds engine threads back when the loop falls behind: a bound on batches that were posted and not yet applied.
#pragma once

#include <condition_variable>
#include <mutex>

namespace understudy::worker {

class PassGate {
 public:
  static constexpr int kBatchesMax = 64;

  /// Engine threads: waits for room (never after Open).
  void Enter() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return open_ || batches_ < kBatchesMax; });
    ++batches_;
  }
  /// The loop, once per batch. Returns how many are still posted.
  int Leave() {
    int left = 0;
    {
      const std::lock_guard lock(mutex_);
      left = --batches_;
    }
    if (left == kBatchesMax - 1) {
      room_.notify_all();
    }
    return left;
  }
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    room_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_;
  int batches_ = 0;
  bool open_ = false;
};

}  // namespace understudy::worker
