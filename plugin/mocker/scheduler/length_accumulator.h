// Statistics of some lengths, one after the other.
#pragma once

#include "plugin/mocker/scheduler/pass_output.h"

#include <cstdint>

namespace understudy::mocker {

/// Welford's running variance: lengths near 2^32 lose nothing. `stats` is complete when the
/// accumulator is gone.
class LengthAccumulator {
 public:
  explicit LengthAccumulator(LengthStats& stats) : stats_(stats) {}
  ~LengthAccumulator() {
    stats_.variance = stats_.count == 0 ? 0.0 : squares_ / static_cast<double>(stats_.count);
  }
  LengthAccumulator(const LengthAccumulator&) = delete;
  LengthAccumulator& operator=(const LengthAccumulator&) = delete;

  void Add(std::uint64_t length) {
    ++stats_.count;
    stats_.sum += length;
    const double value = static_cast<double>(length);
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(stats_.count);
    squares_ += delta * (value - mean_);
  }

 private:
  LengthStats& stats_;
  double mean_ = 0.0;
  double squares_ = 0.0;
};

}  // namespace understudy::mocker
