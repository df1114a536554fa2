// How long a pass would take on a GPU.
#pragma once

#include "understudy/base/clock.h"

#include <cstdint>

namespace understudy::mocker {

/// What the prompts of a pass add up to. `prompt_tokens` counts each prompt from its beginning to
/// the end of this pass' part, `cached_tokens` what of it was there before the pass.
struct PrefillBatch {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

struct DecodeBatch {
  std::uint64_t requests = 0;
  std::uint64_t active_tokens = 0;   ///< tokens that the active blocks could hold
  std::uint64_t context_tokens = 0;  ///< mean sequence length, rounded down
  std::uint64_t total_tokens = 0;    ///< tokens that all blocks could hold
};

/// A prefill batch as if all its prompts were the mean one. `new_tokens` is 0 when nothing is left
/// to compute, also for no request at all.
struct MeanPrefill {
  std::uint64_t requests = 0;
  std::uint64_t new_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

/// Means are integer divisions, as in the original.
[[nodiscard]] MeanPrefill MeanOf(const PrefillBatch& batch);

/// A pass that makes tokens never takes less: two tokens of a request must not share a time.
inline constexpr double kDecodeMsMin = 1.0;

/// Milliseconds of one pass, before any speed-up: a prefill is never negative, a decode at least
/// kDecodeMsMin; both are 0 for a batch without requests. Immutable, any thread, allocates nothing.
class PerfModel {
 public:
  virtual ~PerfModel() = default;
  [[nodiscard]] virtual double PrefillMs(const PrefillBatch& batch) const = 0;
  [[nodiscard]] virtual double DecodeMs(const DecodeBatch& batch) const = 0;
  /// Answers of somebody else's model so far that were no time (not a number, negative, absurd) and
  /// were replaced.
  [[nodiscard]] virtual std::uint64_t bad_results() const { return 0; }
};

/// The default model: fitted polynomials. Source: dynamo-mocker 1.3.0 perf_model.rs; constants and
/// the order of the operations are those of the original, so that sums agree to the nanosecond.
class PolynomialModel final : public PerfModel {
 public:
  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override;
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override;
};

/// Divides `ms` by `ratio` with the original's rounding: to whole nanoseconds before and after. A
/// ratio of 0 means no time at all; with `zero_is_one` it means undivided time, as
/// dynamo-mocker 1.3.0 has it whatever its help text says.
[[nodiscard]] Nanoseconds ScaledTime(double ms, double ratio, bool zero_is_one);

}  // namespace understudy::mocker
