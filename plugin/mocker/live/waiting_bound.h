// The bound of requests that wait for their first admission, per rank.
#pragma once

#include "understudy/base/ids.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace understudy::mocker {

/// Taken by submitting threads, given back by the engine thread; no lock.
class WaitingBound {
 public:
  WaitingBound(std::uint32_t rank_count, std::uint32_t max)
      : counts_(std::make_unique<std::atomic<std::uint32_t>[]>(rank_count)), max_(max) {}

  /// Any thread. False when the rank has its maximum.
  [[nodiscard]] bool Take(RankIndex rank) {
    std::atomic<std::uint32_t>& count = counts_[Value(rank)];
    if (count.fetch_add(1, std::memory_order_relaxed) < max_) {
      return true;
    }
    count.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  /// Any thread.
  void GiveBack(RankIndex rank, std::uint32_t n) {
    counts_[Value(rank)].fetch_sub(n, std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint32_t max() const { return max_; }

 private:
  std::unique_ptr<std::atomic<std::uint32_t>[]> counts_;
  std::uint32_t max_;
};

}  // namespace understudy::mocker
