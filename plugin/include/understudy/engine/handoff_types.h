// Words of a hand-off: a prompt computed by one engine (the source) for another (the destination).
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/uuid.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

namespace understudy::engine {

/// One attempt to hand a prompt over, the same at both ends.
struct HandoffId {
  Uuid uuid;
  friend auto operator<=>(const HandoffId&, const HandoffId&) = default;
};
/// As error texts show it: HandoffId(6f0c1a9e-...).
[[nodiscard]] inline std::string DebugText(const HandoffId& id) {
  return "HandoffId(" + ToText(id.uuid) + ")";
}

/// How long the transfer takes that is modelled between the two ends.
struct TransferTiming {
  enum class Mode : std::uint8_t {
    kFullPrompt,          ///< charged for the whole prompt
    kDestinationMissing,  ///< charged for what the destination had not cached
  };
  Mode mode = Mode::kFullPrompt;
  std::uint64_t full_prompt_tokens = 0;
  std::optional<std::uint64_t> kv_bytes_per_token;
  std::optional<double> bandwidth_gb_s;  ///< 1e9 bytes; none = no delay
  friend bool operator==(const TransferTiming&, const TransferTiming&) = default;
};

/// What an operation came to.
enum class HandoffOutcome : std::uint8_t {
  kSubmitted,  ///< the source's request is queued
  kAccepted,   ///< the destination's request waits for room
  kApplied,
  kNoop,  ///< there was nothing to do
};

/// The prompt is computed and its blocks are held.
struct SourceHeld {
  TransferTiming timing;
  friend bool operator==(const SourceHeld&, const SourceHeld&) = default;
};
/// There is room for the prompt.
struct DestinationReserved {
  std::uint64_t transferable_prompt_tokens = 0;  ///< what of it was not cached
  friend bool operator==(const DestinationReserved&, const DestinationReserved&) = default;
};
using HandoffEvent = std::variant<SourceHeld, DestinationReserved>;

/// What a rank says about a hand-off; travels in PassBatch, between the outputs.
struct HandoffSignal {
  enum class Kind : std::uint8_t { kReply, kSourceHeld, kDestinationReserved };
  Kind kind = Kind::kReply;
  RankIndex rank{};
  HandoffId handoff;
  std::uint32_t outputs_before = 0;                ///< so many outputs of the batch come first
  std::uint64_t command = 0;                       ///< kReply: its number
  HandoffOutcome outcome = HandoffOutcome::kNoop;  ///< kReply, when `error` is empty
  std::string error;                               ///< kReply: why it was refused
  std::uint64_t tokens = 0;  ///< kSourceHeld: whole prompt; kDestinationReserved: missing ones
};

}  // namespace understudy::engine

template <>
struct std::hash<understudy::engine::HandoffId> {
  std::size_t operator()(const understudy::engine::HandoffId& id) const noexcept {
    return std::hash<understudy::Uuid>()(id.uuid);
  }
};
