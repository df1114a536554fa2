// Passes that take the same time whatever they compute.
#pragma once

#include "plugin/mocker/perf_model/timing.h"
#include "understudy/base/result.h"

#include <memory>
#include <string>
#include <string_view>

namespace understudy::mocker {

/// Without a least time. Source: dynamo-mocker 1.6.1, timing model "fixed" (engine-1.6.md 5.1);
/// golden vectors engine-1.6/*_vllm_fixed*.json.
class FixedModel final : public PerfModel {
 public:
  FixedModel(double prefill_ms, double decode_ms)
      : prefill_ms_(prefill_ms), decode_ms_(decode_ms) {}
  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override;
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override;

  /// Begins the text of a latency model of this kind: `fixed:PREFILL_MS,DECODE_MS`.
  static constexpr std::string_view kPrefix = "fixed:";
  [[nodiscard]] static std::string TextOf(double prefill_ms, double decode_ms);
  /// Errors: kInvalidConfig with the text and what is allowed.
  [[nodiscard]] static Result<std::unique_ptr<PerfModel>> Parse(const std::string& text);

 private:
  double prefill_ms_;
  double decode_ms_;
};

}  // namespace understudy::mocker
