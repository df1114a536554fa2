// The hand-offs of a host's ranks: commands when they may be applied, what became of them, and what
// happened by itself.
#include "plugin/mocker/live/rank_host.h"

#include <utility>

namespace understudy::mocker {

namespace {

using End = HandoffDesk::End;
using Kind = handoff::Command::Kind;
using engine::HandoffOutcome;
using engine::HandoffSignal;

HandoffOutcome AppliedIf(bool applied) {
  return applied ? HandoffOutcome::kApplied : HandoffOutcome::kNoop;
}

}  // namespace

void RankHost::ApplyHandoff(std::unique_ptr<handoff::Command> command) {
  if (!desk_) {
    desk_ = std::make_unique<HandoffDesk>();
  }
  Rank& rank = RankOf(command->rank);
  const bool in_pass = InPass(rank);
  // The state of a pass under way is the one at its end. What could free or publish blocks of it
  // waits for that, and whatever came later waits behind.
  if (in_pass && (!command->Submits() || desk_->Parks(rank.index))) {
    if (!desk_->Park(command)) {
      rank.bound_taken += command->Submits() ? 1U : 0U;
      UpdateBound(rank);
      Reply(rank, *command, Fail(Errc::kOverloaded, "too many commands wait for the pass to end"));
    }
    return;
  }
  Execute(rank, *command, in_pass);
  Want(rank);
}

void RankHost::Execute(Rank& rank, handoff::Command& command, bool in_pass) {
  command_output_.Clear();
  rank.bound_taken += command.Submits() ? 1U : 0U;
  const Result<HandoffOutcome> outcome = Run(rank, command, in_pass);
  UpdateBound(rank);
  TakeEvents(command_output_.events);
  Reply(rank, command, outcome);
  Notify(rank, command_output_.notices);
  if (!in_pass) {
    UpdateLoad(rank);
  }
}

Result<HandoffOutcome> RankHost::Run(Rank& rank, handoff::Command& command, bool in_pass) {
  const End end = command.kind == Kind::kSubmitPrefill || command.kind == Kind::kReleaseSource ||
                          command.kind == Kind::kCancelSource
                      ? End::kSource
                      : End::kDestination;
  if (command.Submits()) {
    return Submit(rank, command, end, in_pass);
  }
  const auto request = desk_->Find(rank.index, end, command.handoff);
  if (!request) {
    return HandoffOutcome::kNoop;
  }
  switch (command.kind) {
    case Kind::kReleaseSource:
      if (rank.scheduler->ReleaseSource(*request, command_output_)) {
        desk_->Remove(rank.index, *request);
      } else {
        desk_->Forget(rank.index, *request);  // it runs on as an ordinary request
      }
      return HandoffOutcome::kApplied;
    case Kind::kActivateDestination:
      return AppliedIf(rank.scheduler->ActivateDestination(*request, command_output_));
    case Kind::kCancelSource: {
      const bool applied = rank.scheduler->Cancel(*request, command_output_);
      desk_->Remove(rank.index, *request);
      rank.scheduler->RetryDestination(command_output_);
      return AppliedIf(applied);
    }
    default: {
      const bool applied = rank.scheduler->CancelDestination(*request, command_output_);
      desk_->Remove(rank.index, *request);
      return AppliedIf(applied);
    }
  }
}

Result<HandoffOutcome> RankHost::Submit(Rank& rank,
                                        handoff::Command& command,
                                        HandoffDesk::End end,
                                        bool in_pass) {
  const RequestId id = command.request.id;
  UNDERSTUDY_TRY_STATUS(desk_->Add(rank.index, end, command.handoff, id));
  if (end == End::kSource) {
    rank.scheduler->SubmitSource(std::move(command.request));
    return HandoffOutcome::kSubmitted;
  }
  Status accepted =
      rank.scheduler->ReserveDestination(std::move(command.request), in_pass, command_output_);
  if (!accepted) {
    desk_->Remove(rank.index, id);
    return tl::make_unexpected(std::move(accepted).error());
  }
  return HandoffOutcome::kAccepted;
}

void RankHost::EndPassOfHandoffs(Rank& rank, const PassOutput& pass) {
  Notify(rank, pass.notices);
  for (const engine::Output& output : pass.outputs) {
    if (output.kind == engine::OutputKind::kToken) {
      continue;
    }
    const HandoffDesk::Entry* entry = desk_->Of(rank.index, output.id);
    if (entry != nullptr && !(entry->end == End::kSource && entry->reached)) {
      desk_->Remove(rank.index, output.id);
    }
  }
  for (const auto& command : desk_->TakeParked(rank.index)) {
    Execute(rank, *command, false);
  }
  RetryDestination(rank);
}

void RankHost::RetryDestination(Rank& rank) {
  if (!desk_) {
    return;
  }
  command_output_.Clear();
  rank.scheduler->RetryDestination(command_output_);
  TakeEvents(command_output_.events);
  Notify(rank, command_output_.notices);
}

void RankHost::CancelledForHandoffs(Rank& rank, RequestId id) {
  desk_->Remove(rank.index, id);
  if (!InPass(rank)) {
    RetryDestination(rank);
  }
}

HandoffSignal& RankHost::NewSignal(const Rank& rank, engine::HandoffId handoff) {
  HandoffSignal& signal = batch_.handoffs.emplace_back();
  signal.rank = rank.index;
  signal.handoff = handoff;
  signal.outputs_before = static_cast<std::uint32_t>(batch_.outputs.size());
  ++weight_;
  return signal;
}

void RankHost::Reply(const Rank& rank,
                     const handoff::Command& command,
                     const Result<HandoffOutcome>& outcome) {
  HandoffSignal& signal = NewSignal(rank, command.handoff);
  signal.kind = HandoffSignal::Kind::kReply;
  signal.command = command.number;
  if (outcome) {
    signal.outcome = *outcome;
  } else {
    signal.error = outcome.error().message;
  }
}

void RankHost::Notify(Rank& rank, const std::vector<HandoffNotice>& notices) {
  for (const HandoffNotice& notice : notices) {
    HandoffDesk::Entry* entry = desk_->Of(rank.index, notice.id);
    if (entry == nullptr) {
      continue;
    }
    if (entry->forgotten) {
      CommandOutput freed;
      rank.scheduler->ReleaseSource(notice.id, freed);
      desk_->Remove(rank.index, notice.id);
      TakeEvents(freed.events);
      Notify(rank, freed.notices);
      continue;
    }
    entry->reached = true;
    HandoffSignal& signal = NewSignal(rank, entry->handoff);
    signal.kind = notice.kind == HandoffNotice::Kind::kSourceHeld
                      ? HandoffSignal::Kind::kSourceHeld
                      : HandoffSignal::Kind::kDestinationReserved;
    signal.tokens = notice.tokens;
  }
}

}  // namespace understudy::mocker
