#include "plugin/mocker/handoff/transfer_timing.h"

#include "plugin/mocker/config/value_text.h"

#include <cmath>

namespace understudy::mocker::handoff {

using engine::TransferTiming;

engine::TransferTiming TimingOf(const MockerOptions& options) {
  TransferTiming timing;
  timing.mode = options.kv_transfer_timing == mocker::TransferTiming::kFullPrompt
                    ? TransferTiming::Mode::kFullPrompt
                    : TransferTiming::Mode::kDestinationMissing;
  timing.kv_bytes_per_token = options.kv_bytes_per_token;
  if (options.kv_transfer_bandwidth.value_or(0.0) > 0.0) {
    timing.bandwidth_gb_s = options.kv_transfer_bandwidth;
  }
  return timing;
}

std::optional<double> DelayMs(const TransferTiming& timing,
                              std::uint64_t destination_missing_tokens) {
  const std::uint64_t tokens = timing.mode == TransferTiming::Mode::kFullPrompt
                                   ? timing.full_prompt_tokens
                                   : destination_missing_tokens;
  if (!timing.kv_bytes_per_token || !timing.bandwidth_gb_s || *timing.bandwidth_gb_s <= 0.0) {
    return std::nullopt;
  }
  return static_cast<double>(tokens) * static_cast<double>(*timing.kv_bytes_per_token) /
         (*timing.bandwidth_gb_s * 1e9) * 1000.0;
}

std::optional<std::optional<double>> KnownDelayMs(const TransferTiming& timing,
                                                  std::optional<std::uint64_t> missing_tokens) {
  if (timing.mode == TransferTiming::Mode::kFullPrompt) {
    return DelayMs(timing, 0);
  }
  if (!missing_tokens) {
    return std::nullopt;
  }
  return DelayMs(timing, *missing_tokens);
}

Status ValidateDelay(std::optional<double> delay_ms) {
  if (delay_ms && !(std::isfinite(*delay_ms) && *delay_ms >= 0.0)) {
    return Fail(Errc::kMalformed, "invalid handoff transfer delay " + PlainNumber(*delay_ms));
  }
  return {};
}

Status ValidateTiming(const TransferTiming& timing) {
  if (timing.bandwidth_gb_s &&
      !(std::isfinite(*timing.bandwidth_gb_s) && *timing.bandwidth_gb_s > 0.0)) {
    return Fail(Errc::kMalformed,
                "invalid handoff transfer bandwidth " + PlainNumber(*timing.bandwidth_gb_s));
  }
  TransferTiming full = timing;
  full.mode = TransferTiming::Mode::kFullPrompt;
  return ValidateDelay(DelayMs(full, 0));
}

}  // namespace understudy::mocker::handoff
