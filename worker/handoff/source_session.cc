#include "worker/handoff/source_session.h"

#include "plugin/mocker/handoff/transfer_timing.h"
#include "worker/handoff/wire.h"

#include <utility>

namespace understudy::worker {
namespace {

using mocker::handoff::Coordinator;
using mocker::handoff::Fact;
using mocker::handoff::KnownDelayMs;
using mocker::handoff::ValidateTiming;
using transport::BootstrapFact;
using transport::BootstrapMessage;
using Kind = mocker::handoff::Action::Kind;

}  // namespace

SourceSession::SourceSession(const SessionPlace& place,
                             SourceParticipant source,
                             std::unique_ptr<transport::BootstrapConnection> connection,
                             std::function<void()> over)
    : place_(place),
      handoff_{source.identity.handoff_id},
      source_(std::move(source)),
      connection_(std::move(connection)),
      over_(std::move(over)),
      coordinator_(handoff_, source_.order),
      deadline_(place),
      transfer_(place) {}

SourceSession::~SourceSession() {
  *alive_ = false;
}

void SourceSession::Begin() {
  started_ = place_.clock.Now();
  deadline_at_ = started_ + place_.session_timeout;
  ArmDeadline();
  connection_->Start({[this](const BootstrapMessage& message) { OnMessage(message); },
                      [this](const Status& why) { OnConnectionEnd(why); }});
  Listen();
  if (Send(transport::BootstrapRegistered())) {
    Run(coordinator_.Start());
  }
}

void SourceSession::FailIfRunning(const char* text) {
  if (state_ == State::kRunning) {
    GiveUp(text);
  }
}

void SourceSession::Run(Result<std::vector<Action>> actions) {
  if (!actions) {
    GiveUp(std::move(actions).error().message);
    return;
  }
  actions_.insert(actions_.end(), actions->begin(), actions->end());
  if (std::exchange(draining_, true)) {
    return;  // one of them asked for more: after the others
  }
  while (!actions_.empty() && state_ == State::kRunning) {
    const Action action = actions_.front();
    actions_.pop_front();
    Do(action);
  }
  draining_ = false;
}

void SourceSession::Do(const Action& action) {
  engine::HandoffControl& control = *source_.handoff.registration.control;
  switch (action.kind) {
    case Kind::kSubmitPrefill:
      SubmitPrefill(action);
      return;
    case Kind::kReserveDestination:
    case Kind::kActivateDestination:
    case Kind::kCancelDestination:
      static_cast<void>(Send(ToWire(action, handoff_)));
      return;
    case Kind::kStartTransfer:
      StartTransfer(action);
      return;
    case Kind::kReleaseSource:
      Observe(HandoffStep::kDestinationActivated);
      calls_.push_back(control.ReleaseSource(LocalOutcome(action.id)));
      return;
    case Kind::kCancelSource:
      calls_.push_back(control.CancelSource(LocalOutcome(action.id)));
      return;
    case Kind::kComplete:
      Complete();
      return;
  }
}

void SourceSession::SubmitPrefill(const Action& action) {
  if (!source_.handoff.request) {
    GiveUp("source request was submitted more than once");
    return;
  }
  if (submit_pending_) {
    GiveUp("source prefill submission was already pending");
    return;
  }
  submit_pending_ = action.id;
  calls_.push_back(source_.handoff.registration.control->SubmitPrefill(
      std::exchange(source_.handoff.request, nullptr), LocalOutcome(action.id)));
}

void SourceSession::StartTransfer(const Action& action) {
  transfer_.At(place_.clock.Now() + DelayOf(action.delay_ms), [this] {
    if (state_ == State::kRunning) {
      Run(coordinator_.OnFact({Fact::Kind::kTransferCompleted, handoff_, {}, 0}));
    }
  });
  Run(coordinator_.OnOutcome(action.id, {Outcome::Kind::kScheduled, ""}));
}

void SourceSession::Complete() {
  const bool success = coordinator_.completion() == Coordinator::Completion::kSuccess;
  state_ = State::kCompleting;
  BootstrapMessage last = transport::BootstrapComplete();
  if (success) {
    Observe(HandoffStep::kSourceReleased);
  } else {
    last = transport::BootstrapAbort{"handoff canceled"};
  }
  const Status sent =
      connection_->Send(last, Task([this, success, alive = alive_] {
                          if (!*alive || state_ != State::kCompleting) {
                            return;
                          }
                          if (success) {
                            Observe(HandoffStep::kCompleted);
                          }
                          Finish(success ? Status() : Fail(Errc::kCancelled, "handoff canceled"));
                        }));
  if (!sent) {
    GiveUp("source bootstrap transport closed");
  }
}

bool SourceSession::Send(const BootstrapMessage& message) {
  if (const Status sent = connection_->Send(message); !sent) {
    GiveUp("source bootstrap outbound queue failed: " + sent.error().message);
    return false;
  }
  return true;
}

engine::HandoffControl::Done SourceSession::LocalOutcome(std::uint64_t action_id) {
  return [this, action_id](const Result<engine::HandoffOutcome>& result) {
    OnLocalOutcome(action_id, result);
  };
}

void SourceSession::OnLocalOutcome(std::uint64_t action_id,
                                   const Result<engine::HandoffOutcome>& result) {
  if (state_ != State::kRunning) {
    return;
  }
  const bool was_submit = submit_pending_ == action_id;
  if (was_submit) {
    submit_pending_.reset();
  }
  Run(coordinator_.OnOutcome(action_id, OutcomeOf(result)));
  if (was_submit && held_early_ && state_ == State::kRunning) {
    if (result != engine::HandoffOutcome::kSubmitted) {
      GiveUp("source was held after its submission failed");
      return;
    }
    ApplySourceHeld(*std::exchange(held_early_, std::nullopt));
  }
}

void SourceSession::Listen() {
  source_.handoff.registration.events->Receive(
      [this](const std::optional<engine::HandoffEvent>& event) { OnEvent(event); });
}

void SourceSession::OnEvent(const std::optional<engine::HandoffEvent>& event) {
  if (state_ != State::kRunning) {
    return;
  }
  if (!event) {
    GiveUp("source lifecycle channel closed");
    return;
  }
  Listen();
  if (const auto* held = std::get_if<engine::SourceHeld>(&*event)) {
    OnSourceHeld(held->timing);
  } else {
    GiveUp("source scheduler emitted a destination lifecycle event");
  }
}

void SourceSession::OnSourceHeld(const engine::TransferTiming& timing) {
  if (const Status valid = ValidateTiming(timing); !valid) {
    GiveUp(valid.error().message);
    return;
  }
  timing_ = timing;
  ExtendDeadline();
  if (state_ != State::kRunning) {
    return;
  }
  if (!submit_pending_) {
    ApplySourceHeld(timing);
  } else if (held_early_ && *held_early_ != timing) {
    GiveUp("source changed its modeled transfer timing before submission ACK");
  } else {
    held_early_ = timing;
  }
}

void SourceSession::ApplySourceHeld(const engine::TransferTiming& timing) {
  auto next = coordinator_.OnFact({Fact::Kind::kSourceHeld, handoff_, timing, 0});
  BootstrapFact fact;
  fact.kind = BootstrapFact::Kind::kSourceHeld;
  fact.handoff_id = handoff_.uuid;
  fact.timing = ToWire(timing);
  if (next && !Send(fact)) {
    return;
  }
  if (next && !std::exchange(observed_held_, true)) {
    Observe(HandoffStep::kSourceHeld);
  }
  Run(std::move(next));
}

void SourceSession::OnMessage(const BootstrapMessage& message) {
  if (state_ != State::kRunning) {
    return;
  }
  const auto* fact = std::get_if<BootstrapFact>(&message);
  if (const auto* ack = std::get_if<transport::BootstrapActionAck>(&message)) {
    OnAck(*ack);
  } else if (fact != nullptr && fact->kind == BootstrapFact::Kind::kDestinationReserved &&
             fact->handoff_id == handoff_.uuid) {
    OnReserved(fact->transferable_prompt_tokens);
  } else if (const auto* abort = std::get_if<transport::BootstrapAbort>(&message)) {
    GiveUp(abort->message);
  } else if (const auto* error = std::get_if<transport::BootstrapProtocolError>(&message)) {
    GiveUp(error->message);
  } else if (std::holds_alternative<transport::BootstrapOverloaded>(message)) {
    GiveUp("destination overloaded");
  } else {
    GiveUp("unexpected destination bootstrap message: " + DebugText(message));
  }
}

void SourceSession::OnAck(const transport::BootstrapActionAck& ack) {
  if (ack.outcome == transport::BootstrapActionAck::Outcome::kAccepted &&
      !std::exchange(observed_accepted_, true)) {
    Observe(HandoffStep::kDestinationAccepted);
  }
  Run(coordinator_.OnOutcome(ack.action_id, FromWire(ack)));
}

void SourceSession::OnReserved(std::uint64_t tokens) {
  if (!missing_tokens_) {  // said again it moves no deadline
    missing_tokens_ = tokens;
    Observe(HandoffStep::kDestinationReserved);
  }
  if (timing_ && timing_->mode == engine::TransferTiming::Mode::kDestinationMissing) {
    ExtendDeadline();
  }
  if (state_ == State::kRunning) {
    Run(coordinator_.OnFact({Fact::Kind::kDestinationReserved, handoff_, {}, tokens}));
  }
}

void SourceSession::OnConnectionEnd(const Status& why) {
  switch (state_) {
    case State::kRunning:
      GiveUp(why ? "destination disconnected" : why.error().message);
      return;
    case State::kCompleting:
      GiveUp(why ? "source bootstrap send acknowledgement dropped" : why.error().message);
      return;
    case State::kFailing:
      CleanedPart(destination_told_);  // nobody is there to be told
      return;
    case State::kOver:
      return;
  }
}

/// The session may take as long as the transfer that it models, on top of its own time.
void SourceSession::ExtendDeadline() {
  const auto known = KnownDelayMs(*timing_, missing_tokens_);
  if (!known) {
    return;
  }
  if (timing_->mode == engine::TransferTiming::Mode::kDestinationMissing &&
      *missing_tokens_ > timing_->full_prompt_tokens &&
      *missing_tokens_ - timing_->full_prompt_tokens > kBlockTokensMax) {
    GiveUp("destination reserved " + std::to_string(*missing_tokens_) + " tokens for a prompt of " +
           std::to_string(timing_->full_prompt_tokens));
    return;
  }
  if (const Status valid = mocker::handoff::ValidateDelay(*known); !valid) {
    GiveUp(valid.error().message);
    return;
  }
  deadline_at_ = started_ + place_.session_timeout + DelayOf(known->value_or(0.0));
  ArmDeadline();
}

void SourceSession::ArmDeadline() {
  deadline_.At(deadline_at_, [this] {
    if (state_ == State::kRunning) {
      GiveUp("handoff session timed out");
    } else if (state_ == State::kCompleting) {
      GiveUp("source bootstrap send timed out");
    }
  });
}

void SourceSession::GiveUp(std::string text) {
  if (state_ == State::kFailing || state_ == State::kOver) {
    return;
  }
  state_ = State::kFailing;
  failure_ = std::move(text);
  actions_.clear();
  calls_.clear();  // a submission under way still comes to its end, before the cancellation below
  source_.handoff.request.reset();
  transfer_.Cancel();
  deadline_.At(place_.clock.Now() + place_.cleanup_timeout(), [this] {
    source_cleaned_ = true;
    CleanedPart(destination_told_);
  });
  calls_.push_back(source_.handoff.registration.control->CancelSource(
      [this](const Result<engine::HandoffOutcome>&) { CleanedPart(source_cleaned_); }));
  const Status sent =
      connection_->Send(transport::BootstrapAbort{failure_}, Task([this, alive = alive_] {
                          if (*alive) {
                            CleanedPart(destination_told_);
                          }
                        }));
  if (!sent) {
    CleanedPart(destination_told_);
  }
}

void SourceSession::CleanedPart(bool& part) {
  part = true;
  if (state_ == State::kFailing && source_cleaned_ && destination_told_) {
    Finish(Fail(Errc::kCancelled, failure_));
  }
}

void SourceSession::Finish(Status status) {
  state_ = State::kOver;
  deadline_.Cancel();
  transfer_.Cancel();
  place_.loop.Post([this, alive = alive_, status = std::move(status)] {
    if (!*alive) {
      return;
    }
    // The connection closes and the permit is back before anybody hears of the end.
    calls_.clear();
    connection_.reset();
    source_.handoff = {};
    const auto completion = std::exchange(source_.completion, nullptr);
    const auto over = std::exchange(over_, nullptr);
    completion(status);
    if (*alive) {
      over();
    }
  });
}

void SourceSession::Observe(HandoffStep step) {
  if (source_.observer) {
    source_.observer(step);
  }
}

}  // namespace understudy::worker
