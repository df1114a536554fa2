// Durations of a run, for their mean, spread and percentiles.
#pragma once

#include "plugin/mocker/replay/log_histogram.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// Counts distinct values in whole nanoseconds; adding the value of the call before costs one
/// addition. Above `exact_max` distinct values it turns into a histogram (kSketchError). Not thread
/// safe.
class SampleSet {
 public:
  explicit SampleSet(std::uint64_t exact_max = kExactSamplesMax) : exact_max_(exact_max) {}

  void Add(std::uint64_t nanoseconds, std::uint64_t count = 1) {
    if (!runs_.empty() && runs_.back().value == nanoseconds) {
      runs_.back().count += count;
      return;
    }
    if (runs_.size() >= compact_at_) {
      Compact();
    }
    runs_.push_back({nanoseconds, count});
  }

  /// Of the values in milliseconds.
  [[nodiscard]] Distribution Milliseconds();
  /// Of the values' inverses, per second; zeros are left out.
  [[nodiscard]] Distribution PerSecond();

  [[nodiscard]] std::uint64_t distinct() const { return runs_.size(); }
  [[nodiscard]] bool exact() const { return sketch_.total() == 0; }

 private:
  struct Run {
    std::uint64_t value = 0;
    std::uint64_t count = 0;
  };

  void Compact();
  void Spill();

  /// Calls visit(value in ns, count) in ascending order. Compact first.
  template <class Visit>
  void ForEach(Visit visit) const;
  template <class Convert>
  [[nodiscard]] Distribution Describe(Convert convert, bool inverse);

  std::uint64_t exact_max_;
  std::vector<Run> runs_;
  std::size_t compact_at_ = 1U << 16U;
  LogHistogram sketch_{kSketchError};
  std::uint64_t sketch_min_ = UINT64_MAX;  ///< of those above 0
  std::uint64_t sketch_max_ = 0;
};

}  // namespace understudy::mocker
