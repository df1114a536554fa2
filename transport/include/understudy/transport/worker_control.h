// What a controller asks of a running worker, and what it is told: bodies of the endpoint
// `control`. Our own schema, version 1; the tables stand in transport/README.md. Pure, any thread.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/uuid.h"
#include "understudy/transport/bootstrap_frame.h"
#include "understudy/transport/codec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

inline constexpr std::uint64_t kControlVersion = 1;
/// Of `stats` as a stream.
inline constexpr std::uint64_t kControlIntervalMsMin = 10;
inline constexpr std::uint64_t kControlIntervalMsMax = 3'600'000;
inline constexpr std::size_t kControlRequestIdBytesMax = 256;

/// In the order of their names.
enum class ControlOp : std::uint8_t {
  kStats,
  kClearKvBlocks,
  kDrain,
  kResume,
  kRegisterHandoff,
  kSubmitPrefill,
  kReserveDestination,
  kActivateDestination,
  kCancelDestination,
  kReleaseSource,
  kCancelSource,
};
inline constexpr std::size_t kControlOpCount = 11;
[[nodiscard]] std::string_view NameOf(ControlOp op);

/// Members that an operation does not have keep their defaults.
struct ControlCommand {
  ControlOp op = ControlOp::kStats;
  std::optional<std::uint32_t> rank;         ///< dp rank; none: all, or 0 where it takes one
  std::optional<std::uint64_t> interval_ms;  ///< stats: a stream of them
  bool refuse_in_use = false;  ///< clear_kv_blocks: a rank with blocks in use clears nothing
  bool wait = false;           ///< drain: says when the last request has ended
  Uuid handoff_id;
  std::uint64_t generation = 0;
  std::string request_id;  ///< empty: the worker names it
  std::vector<std::uint32_t> token_ids;
  std::uint32_t max_tokens = 0;
  friend bool operator==(const ControlCommand&, const ControlCommand&) = default;
};
/// Strict: kUnsupported for another version, an unknown operation, an unknown member or one that
/// the operation does not have, a number or a text over its limit; kMalformed for a missing member,
/// one given twice or one of another type. The text names it and is fit for the controller.
[[nodiscard]] Result<ControlCommand> DecodeControlCommand(PayloadCodec codec,
                                                          std::string_view body,
                                                          const DecodeLimits& limits);
[[nodiscard]] std::string EncodeControlCommand(PayloadCodec codec, const ControlCommand& command);

/// Whether a worker can be found by frontends, and whether requests run in it.
enum class ControlState : std::uint8_t { kServing, kDraining, kDrained };
[[nodiscard]] std::string_view NameOf(ControlState state);

enum class ControlOutcome : std::uint8_t { kSubmitted, kAccepted, kApplied, kNoop };
[[nodiscard]] std::string_view NameOf(ControlOutcome outcome);

struct ControlRank {
  std::uint32_t rank = 0;  ///< dp rank
  // of stats
  std::uint64_t requests_running = 0, requests_waiting = 0;
  std::uint64_t blocks_used = 0, blocks_cached = 0, blocks_total = 0;
  std::uint64_t handoffs = 0;  ///< requests of hand-offs that hold, or wait for, blocks
  std::uint64_t sessions = 0;  ///< registrations of hand-offs by controllers
  // of cleared
  std::uint64_t blocks_cleared = 0, blocks_in_use = 0;
  bool refused = false;
  friend bool operator==(const ControlRank&, const ControlRank&) = default;
};

/// One answer; the members of its kind count.
struct ControlItem {
  enum class Kind : std::uint8_t {
    kStats,                ///< state, requests, ranks
    kCleared,              ///< ranks
    kState,                ///< state, changed, requests
    kRegistered,           ///< generation
    kOutcome,              ///< outcome
    kSourceHeld,           ///< timing
    kDestinationReserved,  ///< transferable_prompt_tokens
    kToken,                ///< token
    kFinished,             ///< reason
  };
  Kind kind = Kind::kStats;
  ControlState state = ControlState::kServing;
  bool changed = false;
  std::uint64_t requests = 0;  ///< of `generate` that run
  std::vector<ControlRank> ranks;
  std::uint64_t generation = 0;
  ControlOutcome outcome = ControlOutcome::kNoop;
  BootstrapTiming timing;
  std::uint64_t transferable_prompt_tokens = 0;
  std::uint32_t token = 0;
  std::string reason;
  friend bool operator==(const ControlItem&, const ControlItem&) = default;
};
[[nodiscard]] std::string_view NameOf(ControlItem::Kind kind);

/// A data frame. Refusals are sent with AppendErrorItem, the end with AppendCompleteFinal.
void AppendControlItem(std::string& out, PayloadCodec codec, const ControlItem& item);
/// The body of such a frame; members that are not known are skipped. kMalformed names the field.
[[nodiscard]] Result<ControlItem> DecodeControlItem(PayloadCodec codec, std::string_view body);

/// What the endpoint `clear_kv_blocks` answers, as the handlers of Dynamo's vLLM and SGLang workers
/// do: {"status":"success"|"error","message":text}. Source: 1.3.0.post1 and 1.6.1 wheels.
void AppendStatusMessage(std::string& out,
                         PayloadCodec codec,
                         bool success,
                         std::string_view message);

}  // namespace understudy::transport
