// Which cached block goes first.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// A min-heap of (tick, slot) of the blocks that may be evicted: cached ones without cached
/// descendants. An entry whose slot was used again meanwhile is stale; stale entries are skipped
/// when they come up and swept when they are the majority, so that a prefix that is used and
/// released for ever costs amortised O(1) each time and no memory.
class EvictionOrder {
 public:
  struct Entry {
    std::uint64_t tick = 0;
    std::uint32_t slot = kNoIndex;
  };

  /// `valid(entry)` tells live entries from stale ones; `live_max` is an upper bound of the number
  /// of live ones.
  template <class Valid>
  void Push(Entry entry, std::size_t live_max, Valid valid) {
    if (heap_.size() >= 2 * live_max + kSweepMin) {
      Sweep(valid);
    }
    Add(entry);
  }

  /// Takes out the live entry with the smallest tick; slot kNoIndex if there is none.
  template <class Valid>
  [[nodiscard]] Entry Pop(Valid valid) {
    while (!heap_.empty()) {
      const Entry entry = RemoveFirst();
      if (valid(entry)) {
        return entry;
      }
    }
    return {};
  }

  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  static constexpr std::size_t kSweepMin = 64;

  template <class Valid>
  void Sweep(Valid valid) {
    std::erase_if(heap_, [&](const Entry& entry) { return !valid(entry); });
    Rebuild();
  }
  void Add(Entry entry);
  Entry RemoveFirst();
  void Rebuild();

  std::vector<Entry> heap_;
};

}  // namespace understudy::mocker
