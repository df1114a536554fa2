// What the steps of a hand-off do to routers and workers.
#include "plugin/mocker/handoff/transfer_timing.h"
#include "plugin/mocker/replay/disaggregated_run.h"

#include <algorithm>

namespace understudy::mocker {

bool DisaggregatedRun::Do(const QueuedAction& queued) {
  const RequestId id = queued.id;
  const std::uint32_t source = run_.collector[id].prefill_worker;
  const std::uint32_t destination = run_.collector[id].decode_worker;
  switch (queued.action) {
    case HandoffAction::kSubmitPrefill:
      RoutePrefill(id);
      return true;
    case HandoffAction::kReserveDestination:
      RouteDestination(id);
      return true;
    case HandoffAction::kStartTransfer:
      StartTransfer(id);
      return true;
    case HandoffAction::kActivateDestination:
      return !Defer(decode_, destination, queued) && (Activate(id, destination), true);
    case HandoffAction::kReleaseSource:
      return !Defer(prefill_, source, queued) && (ReleaseSource(id, source), true);
    case HandoffAction::kCancelSource:
      return !Defer(prefill_, source, queued) && (CancelSource(id, source), true);
    case HandoffAction::kCancelDestination:
      return !Defer(decode_, destination, queued) && (CancelDestination(id, destination), true);
    case HandoffAction::kComplete:
      Complete(id);
      return true;
  }
  return true;
}

bool DisaggregatedRun::Defer(Stage& stage, std::uint32_t rank, const QueuedAction& queued) {
  if (rank == Collector::kNobody || !stage.pool.IsBusy(stage.pool.WorkerOf(rank))) {
    return false;
  }
  stage.deferred[stage.pool.WorkerOf(rank)].push_back(queued);
  return true;
}

void DisaggregatedRun::StartTransfer(RequestId id) {
  const DisaggregatedRequest& entry = At(id);
  engine::TransferTiming timing = handoff::TimingOf(*run_.options.prefill_engine);
  timing.full_prompt_tokens = run_.collector[id].input_length;
  const double delay_ms = handoff::DelayMs(timing, entry.transferable_tokens).value_or(0.0);
  if (delay_ms > 0.0) {
    events_.Add(now_ms_ + delay_ms, TimedEvent::Kind::kTransfer, Value(id));
  } else {
    Tell(id, HandoffEvent::kTransferred);
  }
}

void DisaggregatedRun::Activate(RequestId id, std::uint32_t rank) {
  command_.Clear();
  const bool applied = decode_.pool[rank].scheduler->ActivateDestination(id, command_);
  decode_.pool.TouchRank(rank);
  if (applied) {
    run_.collector[id].handoff.destination_activated_ms = now_ms_;
    Tell(id, HandoffEvent::kActivated);
  } else {
    run_.collector[id].status = ReplayStatus::kFailed;
    Tell(id, HandoffEvent::kFailed);
  }
  TakeNotices(command_.notices);
}

void DisaggregatedRun::ReleaseSource(RequestId id, std::uint32_t rank) {
  command_.Clear();
  prefill_.pool[rank].scheduler->ReleaseSource(id, command_);
  prefill_.pool.TouchRank(rank);
  ToPrefillRouter(rank, command_.events);
  run_.collector[id].handoff.source_released_ms = now_ms_;
  Tell(id, HandoffEvent::kReleased);
  TakeNotices(command_.notices);
}

void DisaggregatedRun::CancelSource(RequestId id, std::uint32_t rank) {
  if (rank == Collector::kNobody) {
    LeavePrefillRouter(id);
  } else {
    command_.Clear();
    RankScheduler& scheduler = *prefill_.pool[rank].scheduler;
    if (!scheduler.ReleaseSource(id, command_)) {
      scheduler.Cancel(id, command_);
    }
    prefill_.pool.TouchRank(rank);
    ToPrefillRouter(rank, command_.events);
  }
  Tell(id, HandoffEvent::kSourceCanceled);
}

void DisaggregatedRun::CancelDestination(RequestId id, std::uint32_t rank) {
  command_.Clear();
  if (rank == Collector::kNobody) {
    LeaveDecodeRouter(id);
  } else {
    decode_.pool[rank].scheduler->CancelDestination(id, command_);
    decode_.pool.TouchRank(rank);
  }
  Tell(id, HandoffEvent::kDestinationCanceled);
  TakeNotices(command_.notices);
}

void DisaggregatedRun::Complete(RequestId id) {
  LeavePrefillRouter(id);
  if (At(id).coordinator.canceled()) {
    LeaveDecodeRouter(id);
    const ReplayStatus status = run_.collector[id].status;
    Finish(id, status == ReplayStatus::kCompleted ? ReplayStatus::kCanceled : status);
    return;
  }
  Retire(id);
}

void DisaggregatedRun::RoutePrefill(RequestId id) {
  DisaggregatedRequest& entry = At(id);
  if (!prefill_.router) {
    run_.collector[id].handoff.prefill_overlap = 0;
    SubmitPrefill(id, prefill_.pool.NextInTurn(), std::nullopt);
    return;
  }
  entry.in_prefill_router = true;
  run_.collector.Queue(id, ReplayStage::kPrefill, now_ms_);
  prefill_.router->OnArrival({id, entry.request.prompt, entry.priority, entry.strict_priority},
                             now_ms_,
                             prefill_admissions_);
  DispatchPrefill();
}

void DisaggregatedRun::SubmitPrefill(RequestId id, std::uint32_t rank, Choice choice) {
  engine::Request prefill;
  prefill.id = id;
  prefill.prompt = At(id).request.prompt;
  prefill.output_tokens_max = 1;
  if (!At(id).request.planned_tokens.empty()) {
    prefill.planned_tokens = {At(id).request.planned_tokens.front()};
  }
  run_.collector[id].prefill_worker = rank;
  NoteRoute(id, ReplayStage::kPrefill, rank, choice);
  prefill_.pool[rank].scheduler->SubmitSource(std::move(prefill));
  prefill_.pool.TouchRank(rank);
}

void DisaggregatedRun::DispatchPrefill() {
  for (const RouterAdmission& admission : prefill_admissions_) {
    Collector::Request& request = run_.collector[admission.id];
    request.handoff.prefill_overlap =
        admission.overlap.Tokens(prefill_.pool.config().block_size, request.input_length);
    SubmitPrefill(admission.id, admission.worker, admission.overlap);
  }
  prefill_admissions_.clear();
}

void DisaggregatedRun::NoteRoute(RequestId id,
                                 ReplayStage stage,
                                 std::uint32_t rank,
                                 Choice choice) {
  const WorkerPool& pool = (stage == ReplayStage::kPrefill ? prefill_ : decode_).pool;
  const Collector::Handoff& handoff = run_.collector[id].handoff;
  const std::uint32_t overlap =
      stage == ReplayStage::kPrefill ? handoff.prefill_overlap : handoff.decode_overlap;
  run_.collector.Route(id,
                       {.stage = stage,
                        .routed_ms = now_ms_,
                        .worker = pool.WorkerOf(rank),
                        .rank = rank % pool.ranks_per_worker(),
                        .scheduler = rank,
                        .overlap_tokens = overlap == Collector::kNobody ? 0 : overlap,
                        .choice = choice});
}

void DisaggregatedRun::RouteDestination(RequestId id) {
  DisaggregatedRequest& entry = At(id);
  if (!decode_.router) {
    run_.collector[id].handoff.decode_overlap = 0;
    Reserve(id, decode_.pool.NextInTurn(), std::nullopt);
    return;
  }
  entry.in_decode_router = true;
  run_.collector.Queue(id, ReplayStage::kDecode, now_ms_);
  decode_.router->OnArrival({id, entry.request.prompt, entry.priority, entry.strict_priority},
                            now_ms_,
                            decode_admissions_);
  DispatchDecode();
}

void DisaggregatedRun::Reserve(RequestId id, std::uint32_t rank, Choice choice) {
  command_.Clear();
  WorkerPool::Rank& r = decode_.pool[rank];
  // Before the prompt is computed the source needs it, too.
  engine::Request request =
      order_ == HandoffOrder::kSourceFirst ? std::move(At(id).request) : At(id).request;
  request.id = id;
  const Status accepted = r.scheduler->ReserveDestination(
      std::move(request), decode_.pool.IsBusy(decode_.pool.WorkerOf(rank)), command_);
  decode_.pool.TouchRank(rank);
  if (!accepted) {
    run_.collector[id].status = ReplayStatus::kFailed;
    Tell(id, HandoffEvent::kFailed);
    return;
  }
  run_.collector[id].decode_worker = rank;
  NoteRoute(id, ReplayStage::kDecode, rank, choice);
  TakeNotices(command_.notices);
}

void DisaggregatedRun::DispatchDecode() {
  // Reserving may admit nobody to the router, so the list does not grow meanwhile.
  for (const RouterAdmission& admission : decode_admissions_) {
    Collector::Request& request = run_.collector[admission.id];
    request.handoff.decode_overlap =
        admission.overlap.Tokens(decode_.pool.config().block_size, request.input_length);
    Reserve(admission.id, admission.worker, admission.overlap);
  }
  decode_admissions_.clear();
}

void DisaggregatedRun::LeavePrefillRouter(RequestId id) {
  if (!At(id).in_prefill_router) {
    return;
  }
  At(id).in_prefill_router = false;
  if (!prefill_.router->CancelPending(id)) {
    prefill_.router->OnCompleted(id, prefill_admissions_);
    DispatchPrefill();
  }
}

void DisaggregatedRun::LeaveDecodeRouter(RequestId id) {
  if (!At(id).in_decode_router) {
    return;
  }
  At(id).in_decode_router = false;
  if (!decode_.router->CancelPending(id)) {
    decode_.router->OnCompleted(id, decode_admissions_);
    DispatchDecode();
  }
}

}  // namespace understudy::mocker
