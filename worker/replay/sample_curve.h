// The shape of a distribution, for plots: how many samples are at most so large.
#pragma once

#include <cstdint>
#include <vector>

namespace understudy::worker {

/// `share` of the samples (0..1] is at most `value`.
struct CurvePoint {
  double value = 0.0;
  double share = 0.0;
};

/// Counts samples in buckets of 1 % relative width, so memory does not grow with their number.
class SampleCurve {
 public:
  SampleCurve();

  /// What is not a finite number above the least bucket counts there.
  void Add(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// Rising, from the smallest sample to the largest (whose share is 1); empty without a sample.
  /// At most `points_max` points (3 or more), closest where the curve is steep.
  [[nodiscard]] std::vector<CurvePoint> Points(std::size_t points_max) const;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  double least_ = 0.0;
  double most_ = 0.0;
};

}  // namespace understudy::worker
