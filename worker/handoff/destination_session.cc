#include "worker/handoff/destination_session.h"

#include "plugin/mocker/handoff/transfer_timing.h"
#include "worker/handoff/wire.h"

#include <utility>

namespace understudy::worker {
namespace {

using mocker::handoff::KnownDelayMs;
using mocker::handoff::ValidateTiming;
using transport::BootstrapAction;
using transport::BootstrapFact;
using transport::BootstrapMessage;
using Kind = transport::BootstrapAction::Kind;
using AckKind = transport::BootstrapActionAck::Outcome;

bool IsForDestination(Kind kind) {
  return kind == Kind::kReserveDestination || kind == Kind::kActivateDestination ||
         kind == Kind::kCancelDestination;
}

}  // namespace

DestinationSession::DestinationSession(const SessionPlace& place,
                                       HandoffRequest handoff,
                                       std::unique_ptr<transport::BootstrapConnection> connection,
                                       std::function<void(Status)> over)
    : place_(place),
      handoff_id_(handoff.registration.control->handoff_id()),
      handoff_(std::move(handoff)),
      connection_(std::move(connection)),
      over_(std::move(over)),
      deadline_(place) {}

DestinationSession::~DestinationSession() {
  *alive_ = false;
}

void DestinationSession::Begin() {
  ArmDeadline(place_.clock.Now() + kRendezvousTimeout);
  connection_->Start({[this](const BootstrapMessage& message) { OnMessage(message); },
                      [this](const Status& why) {
                        if (why) {
                          EndWithoutSuccess();
                        } else {
                          GiveUp(why.error().message);
                        }
                      }});
  Listen();
}

void DestinationSession::OnMessage(const BootstrapMessage& message) {
  if (state_ != State::kRunning) {
    return;
  }
  const auto* fact = std::get_if<BootstrapFact>(&message);
  if (std::holds_alternative<transport::BootstrapRegistered>(message)) {
    OnRegistered();
  } else if (fact != nullptr && fact->kind == BootstrapFact::Kind::kSourceHeld &&
             fact->handoff_id == handoff_id_.uuid) {
    OnSourceHeld(FromWire(fact->timing));
  } else if (const auto* action = std::get_if<BootstrapAction>(&message)) {
    OnAction(*action);
  } else if (std::holds_alternative<transport::BootstrapComplete>(message)) {
    OnComplete();
  } else if (std::holds_alternative<transport::BootstrapAbort>(message) ||
             std::holds_alternative<transport::BootstrapProtocolError>(message)) {
    EndWithoutSuccess();
  } else {
    GiveUp("unexpected source bootstrap message: " + DebugText(message));
  }
}

void DestinationSession::OnRegistered() {
  if (started_) {
    GiveUp("source registered the destination more than once");
    return;
  }
  started_ = place_.clock.Now();
  ArmDeadline(*started_ + place_.session_timeout);
}

void DestinationSession::OnSourceHeld(const engine::TransferTiming& timing) {
  if (const Status valid = ValidateTiming(timing); !valid) {
    GiveUp(valid.error().message);
    return;
  }
  if (timing_ && *timing_ != timing) {
    GiveUp("source changed the modeled transfer timing");
    return;
  }
  timing_ = timing;
  static_cast<void>(ExtendDeadline("source fact arrived before registration"));
}

void DestinationSession::OnAction(const Action& action) {
  if (const auto known = outcomes_.find(action.id); known != outcomes_.end()) {
    if (known->second.action != action) {
      GiveUp("bootstrap action ID was reused with different content");
      return;
    }
    static_cast<void>(Send(known->second.ack));
    return;
  }
  if (pending_) {
    if (*pending_ != action) {
      GiveUp("destination received a new action while another was pending");
    }
    return;
  }
  if (outcomes_.size() >= kOutcomesMax) {
    GiveUp("bootstrap action outcome cache exceeded its bound");
    return;
  }
  if (const std::string refusal = RefusalOf(action); !refusal.empty()) {
    static_cast<void>(Answer(action, {action.id, AckKind::kFailed, refusal}));
    return;
  }
  Perform(action);
}

std::string DestinationSession::RefusalOf(const Action& action) const {
  if (!IsForDestination(action.kind)) {
    return "source sent a non-destination scheduler action";
  }
  if (action.handoff_id != handoff_id_.uuid) {
    return "destination action handoff " + DebugText(engine::HandoffId{action.handoff_id}) +
           " does not match bootstrap handoff " + DebugText(handoff_id_);
  }
  if (action.kind == Kind::kReserveDestination && !handoff_.request) {
    return "destination request was reserved more than once";
  }
  return "";
}

void DestinationSession::Perform(const Action& action) {
  pending_ = action;
  const auto done = [this, action](const Result<engine::HandoffOutcome>& result) {
    OnOutcome(action, result);
  };
  engine::HandoffControl& control = *handoff_.registration.control;
  if (action.kind == Kind::kReserveDestination) {
    call_ = control.ReserveDestination(std::exchange(handoff_.request, nullptr), done);
  } else if (action.kind == Kind::kActivateDestination) {
    call_ = control.ActivateDestination(done);
  } else {
    call_ = control.CancelDestination(done);
  }
}

void DestinationSession::OnOutcome(const Action& action,
                                   const Result<engine::HandoffOutcome>& result) {
  if (state_ != State::kRunning) {
    return;
  }
  pending_.reset();
  const Ack ack = AckOf(action.id, OutcomeOf(result));
  if (!Answer(action, ack)) {
    return;
  }
  activated_ =
      activated_ || (action.kind == Kind::kActivateDestination && ack.outcome == AckKind::kApplied);
  if (action.kind != Kind::kReserveDestination) {
    return;
  }
  reserve_answered_ = ack.outcome == AckKind::kAccepted;
  if (!reserved_tokens_) {
    return;
  }
  if (reserve_answered_) {
    static_cast<void>(SendReserved(*reserved_tokens_));
  } else {
    GiveUp("destination reservation lifecycle accompanied a failed reservation");
  }
}

bool DestinationSession::Answer(const Action& action, Ack ack) {
  outcomes_.emplace(action.id, Answered{action, ack});
  return Send(ack);
}

void DestinationSession::OnComplete() {
  if (pending_ || !activated_) {
    GiveUp("source completed before destination activation finished");
    return;
  }
  Finish({});
}

void DestinationSession::Listen() {
  handoff_.registration.events->Receive(
      [this](const std::optional<engine::HandoffEvent>& event) { OnEvent(event); });
}

void DestinationSession::OnEvent(const std::optional<engine::HandoffEvent>& event) {
  if (state_ != State::kRunning) {
    return;
  }
  if (!event) {
    EndWithoutSuccess();
    return;
  }
  Listen();
  if (const auto* reserved = std::get_if<engine::DestinationReserved>(&*event)) {
    OnReserved(reserved->transferable_prompt_tokens);
  } else {
    GiveUp("destination scheduler emitted a source lifecycle event");
  }
}

void DestinationSession::OnReserved(std::uint64_t tokens) {
  if (reserved_tokens_) {
    return;
  }
  reserved_tokens_ = tokens;
  if (timing_ && timing_->mode == engine::TransferTiming::Mode::kDestinationMissing &&
      !ExtendDeadline("destination reserved before source registration")) {
    return;
  }
  if (reserve_answered_) {
    static_cast<void>(SendReserved(tokens));
  } else if (!pending_ || pending_->kind != Kind::kReserveDestination) {
    GiveUp("destination reserved before its action was pending");
  }
}

bool DestinationSession::SendReserved(std::uint64_t tokens) {
  BootstrapFact fact;
  fact.kind = BootstrapFact::Kind::kDestinationReserved;
  fact.handoff_id = handoff_id_.uuid;
  fact.transferable_prompt_tokens = tokens;
  return Send(fact);
}

bool DestinationSession::Send(const BootstrapMessage& message) {
  if (const Status sent = connection_->Send(message); !sent) {
    GiveUp(sent.error().message);
    return false;
  }
  return true;
}

bool DestinationSession::ExtendDeadline(const char* too_early) {
  const auto known = KnownDelayMs(*timing_, reserved_tokens_);
  if (!known) {
    return true;
  }
  if (!started_) {
    GiveUp(too_early);
    return false;
  }
  if (const Status valid = mocker::handoff::ValidateDelay(*known); !valid) {
    GiveUp(valid.error().message);
    return false;
  }
  ArmDeadline(*started_ + place_.session_timeout + DelayOf(known->value_or(0.0)));
  return true;
}

void DestinationSession::ArmDeadline(TimePoint at) {
  deadline_.At(at, [this] { EndWithoutSuccess(); });
}

void DestinationSession::GiveUp(const std::string& text) {
  if (state_ != State::kRunning) {
    return;
  }
  state_ = State::kCleaningUp;
  pending_.reset();
  connection_.reset();  // the source learns it by that alone
  call_.reset();        // a reservation under way still comes to its end, before what follows
  handoff_.request.reset();
  const auto cleaned = [this, text] { Finish(Fail(Errc::kCancelled, text)); };
  deadline_.At(place_.clock.Now() + place_.cleanup_timeout(), cleaned);
  call_ = handoff_.registration.control->CancelDestination(
      [cleaned](const Result<engine::HandoffOutcome>&) { cleaned(); });
}

void DestinationSession::Finish(Status status) {
  if (state_ == State::kOver) {
    return;
  }
  state_ = State::kOver;
  deadline_.Cancel();
  place_.loop.Post([this, alive = alive_, status = std::move(status)] {
    if (!*alive) {
      return;
    }
    // The connection closes and the permit is back before anybody hears of the end.
    call_.reset();
    connection_.reset();
    handoff_ = {};
    const auto over = std::exchange(over_, nullptr);
    over(status);
  });
}

}  // namespace understudy::worker
