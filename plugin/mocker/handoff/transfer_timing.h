// How long a modelled transfer takes.
#pragma once

#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"

#include <cstdint>
#include <optional>
#include <string>

namespace understudy::mocker::handoff {

/// tokens x bytes per token / (bandwidth x 1e9) x 1000, in this order of operations. None: no
/// bandwidth (or one that is not positive), or bytes unknown. Not divided by any speed-up.
/// Source: dynamo-mocker 1.3.0 HandoffTransferTiming::delay_ms.
[[nodiscard]] std::optional<double> DelayMs(const engine::TransferTiming& timing,
                                            std::uint64_t destination_missing_tokens);

/// What is known before the destination has said how much it misses: the delay, or (outer none)
/// that this timing cannot tell yet.
[[nodiscard]] std::optional<std::optional<double>> KnownDelayMs(
    const engine::TransferTiming& timing, std::optional<std::uint64_t> missing_tokens);

/// kMalformed: `invalid handoff transfer bandwidth {x}` or `... delay {x}`.
[[nodiscard]] Status ValidateTiming(const engine::TransferTiming& timing);
[[nodiscard]] Status ValidateDelay(std::optional<double> delay_ms);

/// As Rust displays it: shortest digits that read back the same, no exponent, no ".0".
[[nodiscard]] std::string DisplayNumber(double number);

}  // namespace understudy::mocker::handoff
