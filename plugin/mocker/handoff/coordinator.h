// The order of the steps by which a prompt computed at the source becomes a decode at the
// destination. Runs at the source.
#pragma once

#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker::handoff {

/// vLLM computes the prompt first and then asks for room; SGLang the other way round.
enum class Order : std::uint8_t { kSourceFirst, kDestinationFirst };

/// What has to be done next. Ids count from 0 over all actions of a hand-off.
struct Action {
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
  Kind kind = Kind::kComplete;
  std::uint64_t id = 0;
  double delay_ms = 0.0;  ///< kStartTransfer
  friend bool operator==(const Action&, const Action&) = default;
};

/// What became of an action.
struct Outcome {
  enum class Kind : std::uint8_t { kSubmitted, kAccepted, kScheduled, kApplied, kNoop, kFailed };
  Kind kind = Kind::kNoop;
  std::string error;  ///< kFailed
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
/// As error texts show it: Applied, Failed("...").
[[nodiscard]] std::string DebugText(const Outcome& outcome);

/// What happened at one of the ends, by itself.
struct Fact {
  enum class Kind : std::uint8_t {
    kSourceHeld,
    kDestinationReserved,
    kTransferCompleted,
    kFailed,
    kTimedOut,
    kCanceled,
  };
  Kind kind = Kind::kFailed;
  engine::HandoffId handoff;
  engine::TransferTiming timing{};               ///< kSourceHeld
  std::uint64_t transferable_prompt_tokens = 0;  ///< kDestinationReserved
};

/// Both ends never do an action twice; whatever was asked for and may have been done is taken back
/// when the hand-off fails. Pure: no clock, no socket. Source: dynamo-mocker 1.3.0
/// common/handoff.rs.
class Coordinator {
 public:
  enum class Mode : std::uint8_t { kActive, kCleaningUp, kComplete };
  enum class Completion : std::uint8_t { kSuccess, kCanceled };
  /// Each kind of action occurs once at most.
  static constexpr std::size_t kActionsMax = 8;

  Coordinator(engine::HandoffId handoff, Order order) : handoff_(handoff), order_(order) {}

  /// The first action; nothing when called again.
  [[nodiscard]] std::vector<Action> Start();
  /// kMalformed with the reference's text when `fact` cannot be at this point: give up then.
  [[nodiscard]] Result<std::vector<Action>> OnFact(const Fact& fact);
  /// The same. A repeated outcome asks for nothing, nor does any after the end.
  [[nodiscard]] Result<std::vector<Action>> OnOutcome(std::uint64_t action_id,
                                                      const Outcome& outcome);

  [[nodiscard]] Mode mode() const { return mode_; }
  /// Set once kComplete was asked for.
  [[nodiscard]] std::optional<Completion> completion() const { return completion_; }
  [[nodiscard]] std::uint64_t actions_issued() const { return next_id_; }

 private:
  using Kind = Action::Kind;
  struct Issued {
    Action action;
    std::optional<Outcome> outcome;
  };

  [[nodiscard]] bool WasIssued(Kind kind) const { return (issued_kinds_ >> Bit(kind) & 1U) != 0; }
  static unsigned Bit(Kind kind) { return static_cast<unsigned>(kind); }
  Action Issue(Kind kind, double delay_ms = 0.0);
  Action Complete();
  [[nodiscard]] Status TakeFact(const Fact& fact);
  [[nodiscard]] Status TakeOutcome(Kind kind, const Outcome& outcome);
  [[nodiscard]] std::vector<Action> Advance();
  [[nodiscard]] std::vector<Action> CleanUp();

  const engine::HandoffId handoff_;
  const Order order_;
  Mode mode_ = Mode::kActive;
  std::optional<Completion> completion_;
  std::array<Issued, kActionsMax> issued_{};  ///< by id
  std::uint64_t next_id_ = 0;
  std::uint8_t issued_kinds_ = 0;  ///< a bit a Kind
  bool submitted_ = false;
  bool accepted_ = false;
  bool scheduled_ = false;
  bool transferred_ = false;
  bool activated_ = false;
  bool source_clean_ = false;
  bool destination_clean_ = false;
  std::optional<engine::TransferTiming> held_;
  std::optional<std::uint64_t> reserved_tokens_;
};

}  // namespace understudy::mocker::handoff
