// What will happen at which moment of simulated time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace understudy::mocker {

struct TimedEvent {
  enum class Kind : std::uint8_t { kAggregatedPass, kPrefillPass, kDecodePass, kTransfer };
  double at_ms = 0.0;
  std::uint64_t number = 0;  ///< equal times come in the order in which they were added
  Kind kind = Kind::kAggregatedPass;
  std::uint64_t subject = 0;  ///< a worker, or a request
};

/// Not thread safe.
class EventQueue {
 public:
  void Add(double at_ms, TimedEvent::Kind kind, std::uint64_t subject) {
    heap_.push_back({at_ms, numbers_++, kind, subject});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  /// The next event if it is due at exactly `now_ms` and, with `transfer`, of that kind (or not).
  [[nodiscard]] std::optional<TimedEvent> PopDue(double now_ms, bool transfer) {
    if (heap_.empty() || heap_.front().at_ms != now_ms ||
        (heap_.front().kind == TimedEvent::Kind::kTransfer) != transfer) {
      return std::nullopt;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const TimedEvent event = heap_.back();
    heap_.pop_back();
    return event;
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::optional<double> NextMs() const {
    return heap_.empty() ? std::nullopt : std::optional(heap_.front().at_ms);
  }

 private:
  static bool Later(const TimedEvent& a, const TimedEvent& b) {
    return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.number > b.number;
  }

  std::vector<TimedEvent> heap_;
  std::uint64_t numbers_ = 0;
};

}  // namespace understudy::mocker
