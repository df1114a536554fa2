#include "worker/control/handoff_operations.h"

#include "worker/control/handoff_items.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

using engine::HandoffControl;
using engine::HandoffOutcome;
using engine::OutputKind;
using transport::ControlItem;
using transport::ControlOp;

constexpr const char* kRejected = "request rejected: KV footprint exceeds pool capacity";
constexpr const char* kEnded = "the engine ended the request";

bool BringsRequest(ControlOp op) {
  return op == ControlOp::kSubmitPrefill || op == ControlOp::kReserveDestination;
}

}  // namespace

LiveHandoffOperations::LiveHandoffOperations(transport::Loop& loop,
                                             engine::Handoffs& handoffs,
                                             OutputTap& tap,
                                             ControlStreams& streams,
                                             ControlMetrics& metrics,
                                             Nanoseconds orphan_wait)
    : handoffs_(handoffs),
      tap_(tap),
      streams_(streams),
      registrations_(
          loop,
          handoffs,
          streams,
          [this](const Registrations::Key& key) { return Busy(key); },
          [&metrics](std::size_t count) { metrics.Registrations(count); },
          orphan_wait) {}

void LiveHandoffOperations::Serve(Id stream, RankIndex rank, transport::ControlCommand command) {
  const Registrations::Key key{rank, {command.handoff_id}};
  if (command.op == ControlOp::kRegisterHandoff) {
    registrations_.Register(stream, key);
    return;
  }
  const auto control = registrations_.Find(key, command.generation, BringsRequest(command.op));
  if (!control) {
    streams_.Refuse(stream, control.error());
  } else if (BringsRequest(command.op)) {
    Bring(stream, key, **control, std::move(command));
  } else {
    Command(stream, **control, command.op);
  }
}

void LiveHandoffOperations::Bring(Id stream,
                                  const Registrations::Key& key,
                                  HandoffControl& control,
                                  transport::ControlCommand command) {
  engine::Request request;
  request.id = tap_.TakeId();
  request.rank = key.rank;
  request.prompt = std::move(command.token_ids);
  request.output_tokens_max = command.max_tokens;
  const RequestId id = request.id;
  auto name = command.request_id.empty() ? "control-" + std::to_string(++named_)
                                         : std::move(command.request_id);
  auto prepared = handoffs_.Prepare(std::move(request), std::move(name));
  if (!prepared) {
    tap_.GiveBack();
    streams_.Refuse(stream, prepared.error());
    return;
  }
  Brought& brought = brought_[id];
  brought.stream = stream;
  brought.handoff = key;
  brought.life = std::move(prepared->life);
  brought.life->OnClosed([this, id] {
    const auto found = brought_.find(id);
    if (found != brought_.end() && !found->second.call) {  // else the call tells why
      streams_.Refuse(found->second.stream, {Errc::kUnavailable, kEnded});
      End(id);
    }
  });
  streams_.OnGone(stream, [this, id] { End(id); });
  auto done = [this, id](const Result<HandoffOutcome>& outcome) { Submitted(id, outcome); };
  brought.call = command.op == ControlOp::kSubmitPrefill
                     ? control.SubmitPrefill(std::move(prepared->request), std::move(done))
                     : control.ReserveDestination(std::move(prepared->request), std::move(done));
}

void LiveHandoffOperations::Submitted(RequestId id, const Result<HandoffOutcome>& outcome) {
  const auto found = brought_.find(id);
  if (found == brought_.end()) {
    return;
  }
  const auto call = std::move(found->second.call);
  const Id stream = found->second.stream;
  if (!outcome) {
    streams_.Refuse(stream, outcome.error());
    End(id);
    return;
  }
  streams_.Append(stream, ItemOf(*outcome));
  for (const ControlOutput& one : std::exchange(found->second.early, {})) {
    if (!ApplyOutput(id, one)) {
      return;
    }
  }
  streams_.Flush(stream);
}

void LiveHandoffOperations::Command(Id stream, HandoffControl& control, ControlOp op) {
  auto done = [this, stream](const Result<HandoffOutcome>& outcome) {
    const auto call = calls_.extract(stream);
    if (outcome) {
      streams_.Append(stream, ItemOf(*outcome));
      streams_.Finish(stream);
    } else {
      streams_.Refuse(stream, outcome.error());
    }
  };
  auto& call = calls_[stream];
  streams_.OnGone(stream, [this, stream] { calls_.erase(stream); });
  switch (op) {
    case ControlOp::kReleaseSource:
      call = control.ReleaseSource(std::move(done));
      break;
    case ControlOp::kCancelSource:
      call = control.CancelSource(std::move(done));
      break;
    case ControlOp::kActivateDestination:
      call = control.ActivateDestination(std::move(done));
      break;
    default:
      call = control.CancelDestination(std::move(done));
      break;
  }
}

void LiveHandoffOperations::OnOutputs(const std::vector<ControlOutput>& outputs) {
  std::vector<Id> touched;
  for (const ControlOutput& one : outputs) {
    const auto found = brought_.find(one.output.id);
    if (found == brought_.end()) {
      continue;
    }
    if (found->second.call) {
      found->second.early.push_back(one);
    } else {
      touched.push_back(found->second.stream);
      ApplyOutput(one.output.id, one);
    }
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const Id stream : touched) {
    streams_.Flush(stream);
  }
}

bool LiveHandoffOperations::ApplyOutput(RequestId id, const ControlOutput& one) {
  Brought& brought = brought_.at(id);
  ControlItem item;
  switch (one.output.kind) {
    case OutputKind::kToken:
    case OutputKind::kLastToken:
      item.kind = ControlItem::Kind::kToken;
      item.token = one.output.token;
      streams_.Append(brought.stream, item);
      if (one.output.kind == OutputKind::kToken) {
        return true;
      }
      break;
    case OutputKind::kDone:
      break;
    case OutputKind::kRejected:
      streams_.Refuse(brought.stream, {Errc::kMalformed, kRejected});
      break;
    case OutputKind::kFailed:
      streams_.Refuse(brought.stream,
                      {Errc::kInternal, one.failure.empty() ? kEnded : one.failure});
      break;
  }
  item.kind = ControlItem::Kind::kFinished;
  item.reason = "length";
  streams_.Append(brought.stream, item);  // nothing after a refusal
  streams_.Finish(brought.stream);
  brought.life->Finished();
  End(id);
  return false;
}

void LiveHandoffOperations::End(RequestId id) {
  if (const auto brought = brought_.extract(id)) {
    tap_.GiveBack();
  }
}

bool LiveHandoffOperations::Busy(const Registrations::Key& key) const {
  return std::any_of(brought_.begin(), brought_.end(), [&](const auto& entry) {
    return entry.second.handoff == key;
  });
}

}  // namespace understudy::worker
