// The rendezvous of the two ends of a hand-off: frames over TCP, dialled by the decode side.
// Source: dynamo-mocker 1.3.0 services/bootstrap.rs (mission.md C.2), tests/vectors/disagg.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/uuid.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace understudy::transport {

// ---- header: "DMHF", version u16 = 1, flags u16 = 0, little-endian, once, from the client ----

inline constexpr std::size_t kBootstrapHeaderBytes = 8;
inline constexpr std::uint16_t kBootstrapVersion = 1;
/// kTruncated: fewer bytes; else kMalformed or kUnsupported with the reference's text. `bytes` may
/// go on behind it.
[[nodiscard]] Status CheckBootstrapHeader(std::string_view bytes);
void AppendBootstrapHeader(std::string& out);

// ---- frame: u32 little-endian length, then as many bytes of JSON; both directions ----

inline constexpr std::size_t kBootstrapLengthBytes = 4;
inline constexpr std::size_t kBootstrapBodyBytesMax = 65536;

struct BootstrapBody {
  std::string_view json;  ///< may be empty: the caller refuses that
  std::size_t frame_bytes = 0;
};
/// One whole frame at the start of `bytes`. kTruncated while it is not all there; kMalformed when
/// it is longer than kBootstrapBodyBytesMax.
[[nodiscard]] Result<BootstrapBody> SplitBootstrapFrame(std::string_view bytes);

/// Who talks about what; the same in every frame of a connection.
struct BootstrapIdentity {
  Uuid handoff_id;
  std::uint64_t room = 0;
  Uuid request_id;
  friend bool operator==(const BootstrapIdentity&, const BootstrapIdentity&) = default;
};

enum class BootstrapOrder : std::uint8_t { kSourceFirst, kDestinationFirst };
enum class BootstrapEngine : std::uint8_t { kVllm, kSglang, kTrtllm };

/// First frame of the client, whose only role is Destination.
struct BootstrapRegister {
  std::uint32_t dp_rank = 0;
  BootstrapOrder order = BootstrapOrder::kSourceFirst;
  BootstrapEngine engine = BootstrapEngine::kVllm;
  friend bool operator==(const BootstrapRegister&, const BootstrapRegister&) = default;
};
struct BootstrapRegistered {
  friend bool operator==(const BootstrapRegistered&, const BootstrapRegistered&) = default;
};

struct BootstrapAction {
  enum class Kind : std::uint8_t {
    kSubmitPrefill,
    kReserveDestination,
    kStartTransfer,
    kActivateDestination,
    kReleaseSource,
    kCancelSource,
    kCancelDestination,
    kComplete,
  };
  std::uint64_t id = 0;
  Kind kind = Kind::kComplete;
  Uuid handoff_id;
  double delay_ms = 0.0;  ///< kStartTransfer
  friend bool operator==(const BootstrapAction&, const BootstrapAction&) = default;
};

struct BootstrapActionAck {
  enum class Outcome : std::uint8_t {
    kSubmitted,
    kAccepted,
    kScheduled,
    kApplied,
    kNoop,
    kFailed,
  };
  std::uint64_t action_id = 0;
  Outcome outcome = Outcome::kNoop;
  std::string error;  ///< kFailed
  friend bool operator==(const BootstrapActionAck&, const BootstrapActionAck&) = default;
};

struct BootstrapTiming {
  enum class Mode : std::uint8_t { kFullPrompt, kDestinationMissing };
  Mode mode = Mode::kFullPrompt;
  std::uint64_t full_prompt_tokens = 0;
  std::optional<std::uint64_t> kv_bytes_per_token;
  std::optional<double> bandwidth_gb_s;
  friend bool operator==(const BootstrapTiming&, const BootstrapTiming&) = default;
};

struct BootstrapFact {
  enum class Kind : std::uint8_t {
    kSourceHeld,
    kDestinationReserved,
    kTransferCompleted,
    kFailed,
    kTimedOut,
    kCanceled,
  };
  Kind kind = Kind::kFailed;
  Uuid handoff_id;
  BootstrapTiming timing{};                      ///< kSourceHeld
  std::uint64_t transferable_prompt_tokens = 0;  ///< kDestinationReserved
  friend bool operator==(const BootstrapFact&, const BootstrapFact&) = default;
};

struct BootstrapComplete {
  friend bool operator==(const BootstrapComplete&, const BootstrapComplete&) = default;
};
struct BootstrapAbort {
  std::string message;
  friend bool operator==(const BootstrapAbort&, const BootstrapAbort&) = default;
};
struct BootstrapOverloaded {
  friend bool operator==(const BootstrapOverloaded&, const BootstrapOverloaded&) = default;
};
struct BootstrapProtocolError {
  std::string message;
  friend bool operator==(const BootstrapProtocolError&, const BootstrapProtocolError&) = default;
};

using BootstrapMessage = std::variant<BootstrapRegister,
                                      BootstrapRegistered,
                                      BootstrapAction,
                                      BootstrapActionAck,
                                      BootstrapFact,
                                      BootstrapComplete,
                                      BootstrapAbort,
                                      BootstrapOverloaded,
                                      BootstrapProtocolError>;

struct BootstrapFrame {
  BootstrapIdentity identity;
  BootstrapMessage message;
  friend bool operator==(const BootstrapFrame&, const BootstrapFrame&) = default;
};

/// Unknown keys are skipped; a key given twice, a missing one (but for the optional ones of a
/// timing), or a wrong type is kMalformed, and the text names the field.
[[nodiscard]] Result<BootstrapFrame> DecodeBootstrapBody(std::string_view json);
/// Length and body, the bytes of the reference. kMalformed `bootstrap frame length {n} is outside
/// 1..=65536`: nothing is appended then.
[[nodiscard]] Status AppendBootstrapFrame(std::string& out, const BootstrapFrame& frame);

/// As error texts of the reference show it: Fact(TransferCompleted { handoff_id: ... }).
[[nodiscard]] std::string DebugText(const BootstrapMessage& message);

}  // namespace understudy::transport
