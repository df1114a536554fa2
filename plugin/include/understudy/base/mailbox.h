// The way into an engine thread: many producers, one consumer, bounded, producers never wait for
// room.
#pragma once

#include "understudy/base/clock.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace understudy {

/// Items come out in the order of their pushes. `capacity` bounds ordinary items; `reserve` more
/// places are kept for items that relieve the consumer (cancels, stops), so that a full box can
/// still be told to do less. Memory grows with use.
template <class T>
class Mailbox {
 public:
  Mailbox(std::size_t capacity, std::size_t reserve) : capacity_(capacity), reserve_(reserve) {}

  /// Any thread, never waits for room. False when full or closed: `item` is then untouched.
  [[nodiscard]] bool Push(T&& item) { return PushWithin(std::move(item), capacity_, true); }

  /// The same, but a consumer that waits sleeps on until Wake, another push, or its deadline.
  [[nodiscard]] bool PushQuietly(T&& item) { return PushWithin(std::move(item), capacity_, false); }

  /// Any thread: ends the wait of a consumer that has something to take.
  void Wake() {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      wake = !items_.empty() && std::exchange(waiting_, false);
    }
    if (wake) {
      wake_.notify_one();
    }
  }

  /// The same, with the reserved places.
  [[nodiscard]] bool PushReserved(T&& item) {
    return PushWithin(std::move(item), capacity_ + reserve_, true);
  }

  /// Any thread. Nothing can be pushed any more; the consumer wakes up. Idempotent.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      news_.store(true, std::memory_order_relaxed);
    }
    wake_.notify_one();
  }

  /// Consumer: moves everything that is there to `out` (must be empty). Costs one relaxed load when
  /// nothing is.
  void TryDrain(std::vector<T>& out) {
    if (!news_.load(std::memory_order_relaxed)) {
      return;
    }
    const std::lock_guard lock(mutex_);
    Take(out);
  }

  /// Consumer: the same, but first waits until there is something, the box is closed or `deadline`
  /// (CLOCK_MONOTONIC, none = for ever) has come. Returns false when the box is closed.
  bool Drain(std::vector<T>& out, std::optional<TimePoint> deadline) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return closed_ || !items_.empty(); };
    waiting_ = true;
    if (deadline.has_value()) {
      wake_.wait_until(lock, *deadline, ready);
    } else {
      wake_.wait(lock, ready);
    }
    waiting_ = false;
    Take(out);
    return !closed_;
  }

  /// Any thread.
  [[nodiscard]] bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  bool PushWithin(T&& item, std::size_t limit, bool loud) {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= limit) {
        return false;
      }
      items_.push_back(std::move(item));
      news_.store(true, std::memory_order_relaxed);
      wake = loud && std::exchange(waiting_, false);
    }
    if (wake) {
      wake_.notify_one();
    }
    return true;
  }

  void Take(std::vector<T>& out) {
    out.swap(items_);
    news_.store(closed_, std::memory_order_relaxed);
  }

  const std::size_t capacity_;
  const std::size_t reserve_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<T> items_;
  std::atomic<bool> news_{false};  ///< a hint for TryDrain; the mutex orders the items themselves
  bool waiting_ = false;
  bool closed_ = false;
};

}  // namespace understudy
