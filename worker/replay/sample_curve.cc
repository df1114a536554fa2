#include "worker/replay/sample_curve.h"

#include <algorithm>
#include <cmath>

namespace understudy::worker {
namespace {

constexpr double kLeast = 1e-6;  // ms: times are whole nanoseconds
constexpr double kBucketsPerOctave = 70.0;
constexpr std::size_t kBuckets = 70 * 60;  // up to 1e12 ms

std::size_t BucketOf(double value) {
  if (!(value > kLeast)) {
    return 0;
  }
  const double index = std::log2(value / kLeast) * kBucketsPerOctave;
  return std::min(static_cast<std::size_t>(index), kBuckets - 1);
}

double UpperBound(std::size_t bucket) {
  return kLeast * std::exp2(static_cast<double>(bucket + 1) / kBucketsPerOctave);
}

}  // namespace

SampleCurve::SampleCurve() : buckets_(kBuckets) {}

void SampleCurve::Add(double value) {
  ++buckets_[BucketOf(value)];
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
}

std::vector<CurvePoint> SampleCurve::Points(std::size_t points_max) const {
  std::vector<CurvePoint> points;
  if (count_ == 0) {
    return points;
  }
  const double total = static_cast<double>(count_);
  // The first and the last point come besides those that are a step apart.
  const double step = 1.0 / static_cast<double>(std::max<std::size_t>(points_max, 3) - 2);
  std::uint64_t seen = 0;
  double shown = 0.0;
  for (std::size_t i = 0; i < buckets_.size() && seen < count_; ++i) {
    if (buckets_[i] == 0) {
      continue;
    }
    seen += buckets_[i];
    const double share = static_cast<double>(seen) / total;
    if (points.empty() || share - shown >= step || seen == count_) {
      points.push_back({std::clamp(UpperBound(i), least_, most_), share});
      shown = share;
    }
  }
  points.back().value = most_;
  return points;
}

}  // namespace understudy::worker
