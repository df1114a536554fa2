// Timing from measurements of a real engine: straight lines between the points of a planner
// profile.
#pragma once

#include "plugin/mocker/perf_model/grid.h"
#include "plugin/mocker/perf_model/npz.h"
#include "plugin/mocker/perf_model/timing.h"
#include "understudy/base/result.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace understudy::mocker {

/// The arrays of a planner profile, under the names that they have in its .npz file.
struct PlannerProfile {
  std::vector<double> prefill_isl;      ///< tokens computed in a pass
  std::vector<double> prefill_ttft_ms;  ///< one per prefill_isl
  std::vector<double> decode_active_kv_tokens;
  std::vector<double> decode_context_length;
  std::vector<double> decode_itl;  ///< ms, [active][context]
  std::size_t decode_itl_rows = 0;
  std::size_t decode_itl_columns = 0;
};

/// Prefill: one line through (prefill_isl, prefill_ttft_ms) at the tokens that the whole batch
/// computes. Decode: bilinear in (active tokens, mean context). Both go on beyond their ends.
/// Source: dynamo-mocker 1.3.0 PerfModel::Interpolated (engine.md 5.2); golden vectors
/// replay_synth_*npz*.
class InterpolatedModel final : public PerfModel {
 public:
  /// kReference takes what dynamo-mocker 1.3.0 takes: float64 arrays only, any value in them.
  enum class Mode : std::uint8_t { kOurs, kReference };

  /// Errors: kMalformed, one line with array, index, value and what is allowed; the original's text
  /// where it has one.
  [[nodiscard]] static Result<std::unique_ptr<PerfModel>> New(PlannerProfile profile, Mode mode);
  /// The same from an .npz file, whose path begins the text.
  [[nodiscard]] static Result<std::unique_ptr<PerfModel>> FromNpz(const NpzFile& file, Mode mode);

  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override;
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override;

 private:
  InterpolatedModel(Grid prefill, Grid decode);

  Grid prefill_;
  Grid decode_;
};

}  // namespace understudy::mocker
