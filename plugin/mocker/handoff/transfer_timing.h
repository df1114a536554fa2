// How long a modelled transfer takes.
#pragma once

#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <optional>
#include <string>

namespace understudy::mocker::handoff {

/// What a source with these options says of its transfers; full_prompt_tokens is left at 0. A
/// bandwidth of 0 means no delay: Dynamo 1.3.0 sends it as it is, and refuses it at the other end.
[[nodiscard]] engine::TransferTiming TimingOf(const MockerOptions& options);

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

}  // namespace understudy::mocker::handoff
