#include "plugin/mocker/perf_model/timing.h"

#include <algorithm>
#include <cmath>

namespace understudy::mocker {

namespace {

constexpr double kNanosecondsPerMs = 1e6;

/// No pass is modelled longer (about three years): keeps absurd ratios inside 64 bits.
constexpr double kPassNanosecondsMax = 1e17;

double WholeNanoseconds(double ns) {
  return std::nearbyint(ns);
}

Nanoseconds Bounded(double ns) {
  return Nanoseconds(static_cast<std::int64_t>(std::min(ns, kPassNanosecondsMax)));
}

}  // namespace

double PolynomialModel::PrefillMs(const PrefillBatch& batch) const {
  if (batch.requests == 0) {
    return 0.0;
  }
  // Means are integer divisions in the original.
  const std::uint64_t prompt = batch.prompt_tokens / batch.requests;
  const std::uint64_t cached = batch.cached_tokens / batch.requests;
  if (prompt <= cached) {
    return 0.0;
  }
  const auto tokens = static_cast<double>(batch.requests * (prompt - cached));
  return std::max(0.0, 4.209989e-07 * tokens * tokens + 1.518344e-02 * tokens + 1.650142e+01);
}

double PolynomialModel::DecodeMs(const DecodeBatch& batch) const {
  if (batch.requests == 0) {
    return 0.0;
  }
  const double share = batch.total_tokens == 0 ? 1.0
                                               : static_cast<double>(batch.active_tokens) /
                                                     static_cast<double>(batch.total_tokens);
  return std::max(1.0, -25.74 * share * share + 54.01 * share + 5.74);
}

Nanoseconds ScaledTime(double ms, double ratio, bool zero_is_one) {
  const double whole = WholeNanoseconds(ms * kNanosecondsPerMs);
  if (ratio > 0.0) {
    return Bounded(WholeNanoseconds(whole / ratio));
  }
  return zero_is_one ? Bounded(whole) : Nanoseconds(0);
}

}  // namespace understudy::mocker
