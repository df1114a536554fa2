// Merges raw events of a rank before they get outbound ids.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/router_event.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace understudy::worker {

/// Source: events.md 4.1.
struct BatchingOptions {
  static constexpr std::chrono::milliseconds kWindowMax{15'000};
  /// 0 = off: every event goes out by itself, at once.
  std::chrono::milliseconds window{0};
  /// More pending blocks go out before the window ends.
  std::size_t blocks_max = 128;
  /// As 1.6: rows that follow each other in one unit become one event even with the window off.
  bool merge_units = false;
};

/// Joins removals, or rows of stored blocks that follow each other, of one tier, domain and
/// session. Anything else, and the first event after a window of quiet, ends what is pending. Pure.
class Batcher {
 public:
  /// The first window begins at `now`.
  Batcher(const BatchingOptions& options, TimePoint now) : options_(options), last_flush_(now) {}

  /// Appends to `out` what is complete.
  void Take(transport::RouterEvent event, TimePoint now, std::vector<transport::RouterEvent>& out);
  /// The end of what the engine said at once.
  void EndUnit(TimePoint now, std::vector<transport::RouterEvent>& out);
  void Flush(TimePoint now, std::vector<transport::RouterEvent>& out);

  /// When Flush is to be called if nothing comes; none: nothing is pending.
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  [[nodiscard]] bool Joins(const transport::RouterEvent& event) const;
  void Join(transport::RouterEvent&& event);
  [[nodiscard]] bool WindowOver(TimePoint now) const {
    return now - last_flush_ >= options_.window;
  }

  BatchingOptions options_;
  TimePoint last_flush_;
  std::optional<transport::RouterEvent> pending_;
};

}  // namespace understudy::worker
