#include "plugin/mocker/perf_model/timing.h"

#include <algorithm>
#include <cmath>

namespace understudy::mocker {

namespace {

constexpr double kNanosecondsPerS = 1e9;
constexpr double kMsPerS = 1e3;

/// No pass is modelled longer (about three years): keeps absurd ratios inside 64 bits.
constexpr double kPassNanosecondsMax = 1e17;

/// Rounds as the original does: the seconds as they are in binary, to the nearest nanosecond. With
/// small pools half nanoseconds are common, so that the rounding error of a product decides.
double WholeNanoseconds(double seconds) {
  const double ns = seconds * kNanosecondsPerS;
  const double whole = std::nearbyint(ns);
  const double rest = (ns - whole) + std::fma(seconds, kNanosecondsPerS, -ns);
  return rest > 0.5 ? whole + 1.0 : rest < -0.5 ? whole - 1.0 : whole;
}

Nanoseconds Bounded(double ns) {
  return Nanoseconds(static_cast<std::int64_t>(std::min(ns, kPassNanosecondsMax)));
}

}  // namespace

MeanPrefill MeanOf(const PrefillBatch& batch) {
  if (batch.requests == 0) {
    return {};
  }
  const std::uint64_t prompt = batch.prompt_tokens / batch.requests;
  const std::uint64_t cached = batch.cached_tokens / batch.requests;
  return {batch.requests, prompt > cached ? prompt - cached : 0, cached};
}

double PolynomialModel::PrefillMs(const PrefillBatch& batch) const {
  const MeanPrefill mean = MeanOf(batch);
  if (mean.new_tokens == 0) {
    return 0.0;
  }
  const auto tokens = static_cast<double>(mean.requests * mean.new_tokens);
  return std::max(0.0, 4.209989e-07 * (tokens * tokens) + 1.518344e-02 * tokens + 1.650142e+01);
}

double PolynomialModel::DecodeMs(const DecodeBatch& batch) const {
  if (batch.requests == 0) {
    return 0.0;
  }
  // More than all happens where the time follows lengths: shared tokens count for each sequence.
  const double share = batch.total_tokens == 0
                           ? 1.0
                           : std::min(1.0,
                                      static_cast<double>(batch.active_tokens) /
                                          static_cast<double>(batch.total_tokens));
  return std::max(kDecodeMsMin, -25.74 * (share * share) + 54.01 * share + 5.74);
}

Nanoseconds ScaledTime(double ms, double ratio, bool zero_is_one) {
  const double whole = WholeNanoseconds(ms / kMsPerS);
  if (ratio > 0.0) {
    return Bounded(WholeNanoseconds(whole / kNanosecondsPerS / ratio));
  }
  return zero_is_one ? Bounded(whole) : Nanoseconds(0);
}

}  // namespace understudy::mocker
