#include "plugin/mocker/handoff/coordinator.h"

#include "plugin/mocker/handoff/transfer_timing.h"
#include "understudy/base/assert.h"

#include <string_view>

namespace understudy::mocker::handoff {

namespace {

std::string ActionText(std::uint64_t id) {
  return "handoff action HandoffActionId(" + std::to_string(id) + ")";
}

std::string_view NameOf(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::kSubmitted:
      return "Submitted";
    case Outcome::Kind::kAccepted:
      return "Accepted";
    case Outcome::Kind::kScheduled:
      return "Scheduled";
    case Outcome::Kind::kApplied:
      return "Applied";
    case Outcome::Kind::kNoop:
      return "Noop";
    case Outcome::Kind::kFailed:
      return "Failed";
  }
  return {};
}

bool IsAllowed(Action::Kind action, Outcome::Kind outcome) {
  using Kind = Action::Kind;
  switch (action) {
    case Kind::kSubmitPrefill:
      return outcome == Outcome::Kind::kSubmitted;
    case Kind::kReserveDestination:
      return outcome == Outcome::Kind::kAccepted;
    case Kind::kStartTransfer:
      return outcome == Outcome::Kind::kScheduled;
    case Kind::kActivateDestination:
      return outcome == Outcome::Kind::kApplied;
    case Kind::kReleaseSource:
    case Kind::kCancelSource:
    case Kind::kCancelDestination:
      return outcome == Outcome::Kind::kApplied || outcome == Outcome::Kind::kNoop;
    case Kind::kComplete:
      return true;
  }
  return false;
}

}  // namespace

std::string DebugText(const Outcome& outcome) {
  std::string text(NameOf(outcome.kind));
  return outcome.kind == Outcome::Kind::kFailed ? text + "(\"" + outcome.error + "\")" : text;
}

std::vector<Action> Coordinator::Start() {
  if (next_id_ > 0) {
    return {};
  }
  return {Issue(order_ == Order::kSourceFirst ? Kind::kSubmitPrefill : Kind::kReserveDestination)};
}

Result<std::vector<Action>> Coordinator::OnFact(const Fact& fact) {
  if (fact.handoff != handoff_) {
    return Fail(Errc::kMalformed, "fact belongs to a different handoff");
  }
  if (mode_ != Mode::kActive) {
    return std::vector<Action>();
  }
  if (fact.kind == Fact::Kind::kFailed || fact.kind == Fact::Kind::kTimedOut ||
      fact.kind == Fact::Kind::kCanceled) {
    mode_ = Mode::kCleaningUp;
    return CleanUp();
  }
  const bool repeated = (fact.kind == Fact::Kind::kSourceHeld && held_) ||
                        (fact.kind == Fact::Kind::kDestinationReserved && reserved_tokens_) ||
                        (fact.kind == Fact::Kind::kTransferCompleted && transferred_);
  if (repeated) {
    return std::vector<Action>();
  }
  UNDERSTUDY_TRY_STATUS(TakeFact(fact));
  return Advance();
}

Status Coordinator::TakeFact(const Fact& fact) {
  if (fact.kind == Fact::Kind::kSourceHeld) {
    if (!submitted_) {
      return Fail(Errc::kMalformed, "source held before prefill submission was acknowledged");
    }
    UNDERSTUDY_TRY_STATUS(ValidateTiming(fact.timing));
    held_ = fact.timing;
  } else if (fact.kind == Fact::Kind::kDestinationReserved) {
    if (!accepted_) {
      return Fail(Errc::kMalformed, "destination reserved before ownership was accepted");
    }
    reserved_tokens_ = fact.transferable_prompt_tokens;
  } else {
    if (!scheduled_) {
      return Fail(Errc::kMalformed, "transfer completed before it was scheduled");
    }
    transferred_ = true;
  }
  return {};
}

Result<std::vector<Action>> Coordinator::OnOutcome(std::uint64_t action_id,
                                                   const Outcome& outcome) {
  if (mode_ == Mode::kComplete) {
    return std::vector<Action>();
  }
  if (action_id >= next_id_) {
    return Fail(Errc::kMalformed, "unknown " + ActionText(action_id));
  }
  Issued& issued = issued_[action_id];
  if (issued.outcome) {
    if (*issued.outcome != outcome) {
      return Fail(Errc::kMalformed, "conflicting outcome for " + ActionText(action_id));
    }
    return std::vector<Action>();
  }
  issued.outcome = outcome;
  const Kind kind = issued.action.kind;
  if (outcome.kind == Outcome::Kind::kFailed) {
    if (kind == Kind::kCancelSource || kind == Kind::kCancelDestination) {
      return Fail(
          Errc::kMalformed,
          "handoff cleanup action HandoffActionId(" + std::to_string(action_id) + ") failed");
    }
    mode_ = Mode::kCleaningUp;
    return CleanUp();
  }
  UNDERSTUDY_TRY_STATUS(TakeOutcome(kind, outcome));
  return mode_ == Mode::kActive ? Advance() : CleanUp();
}

Status Coordinator::TakeOutcome(Kind kind, const Outcome& outcome) {
  if (!IsAllowed(kind, outcome.kind)) {
    return Fail(Errc::kMalformed, "invalid handoff action outcome " + DebugText(outcome));
  }
  submitted_ = submitted_ || kind == Kind::kSubmitPrefill;
  accepted_ = accepted_ || kind == Kind::kReserveDestination;
  scheduled_ = scheduled_ || kind == Kind::kStartTransfer;
  activated_ = activated_ || kind == Kind::kActivateDestination;
  source_clean_ = source_clean_ || kind == Kind::kReleaseSource || kind == Kind::kCancelSource;
  destination_clean_ = destination_clean_ || kind == Kind::kCancelDestination;
  return {};
}

std::vector<Action> Coordinator::Advance() {
  if (order_ == Order::kSourceFirst && held_ && !WasIssued(Kind::kReserveDestination)) {
    return {Issue(Kind::kReserveDestination)};
  }
  if (order_ == Order::kDestinationFirst && reserved_tokens_ && !WasIssued(Kind::kSubmitPrefill)) {
    return {Issue(Kind::kSubmitPrefill)};
  }
  if (held_ && reserved_tokens_ && !WasIssued(Kind::kStartTransfer)) {
    return {Issue(Kind::kStartTransfer, DelayMs(*held_, *reserved_tokens_).value_or(0.0))};
  }
  if (transferred_ && !WasIssued(Kind::kActivateDestination)) {
    return {Issue(Kind::kActivateDestination)};
  }
  if (activated_ && !WasIssued(Kind::kReleaseSource)) {
    return {Issue(Kind::kReleaseSource)};
  }
  if (source_clean_) {
    return {Complete()};
  }
  return {};
}

std::vector<Action> Coordinator::CleanUp() {
  // What was asked for and not answered counts as done.
  const bool source = WasIssued(Kind::kSubmitPrefill) && !source_clean_;
  const bool destination = WasIssued(Kind::kReserveDestination) && !destination_clean_;
  std::vector<Action> actions;
  if (source && !WasIssued(Kind::kCancelSource)) {
    actions.push_back(Issue(Kind::kCancelSource));
  }
  if (destination && !WasIssued(Kind::kCancelDestination)) {
    actions.push_back(Issue(Kind::kCancelDestination));
  }
  if (!source && !destination) {
    actions.push_back(Complete());
  }
  return actions;
}

Action Coordinator::Issue(Kind kind, double delay_ms) {
  UNDERSTUDY_ASSERT(next_id_ < kActionsMax && !WasIssued(kind));
  const Action action{kind, next_id_, delay_ms};
  issued_[next_id_++] = {action, std::nullopt};
  issued_kinds_ = static_cast<std::uint8_t>(issued_kinds_ | 1U << Bit(kind));
  return action;
}

Action Coordinator::Complete() {
  completion_ = mode_ == Mode::kCleaningUp ? Completion::kCanceled : Completion::kSuccess;
  mode_ = Mode::kComplete;
  return Issue(Kind::kComplete);
}

}  // namespace understudy::mocker::handoff
