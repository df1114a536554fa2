// Source: dynamo-mocker 1.3.0 replay/offline/disagg.rs; golden replay_*_disagg*.json.
#include "plugin/mocker/replay/disaggregated_run.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

using Kind = TimedEvent::Kind;

KvRouterOptions PrefillRouter(KvRouterOptions options) {
  options.router_track_active_blocks = false;
  return options;
}

KvRouterOptions DecodeRouter(KvRouterOptions options) {
  options.overlap_score_credit = 0.0;
  options.router_assume_kv_reuse = false;
  options.router_track_prefill_tokens = false;
  return options;
}

}  // namespace

DisaggregatedRun::DisaggregatedRun(const ReplayRun& run, WorkerPool& prefill, WorkerPool& decode)
    : run_(run),
      flow_(run),
      prefill_(prefill, run.options, PrefillRouter(run.options.router)),
      decode_(decode, run.options, DecodeRouter(run.options.router)),
      order_(prefill.config().engine_type == EngineType::kSglang ? HandoffOrder::kDestinationFirst
                                                                 : HandoffOrder::kSourceFirst) {}

Result<RunEnd> DisaggregatedRun::Run() {
  UNDERSTUDY_TRY_STATUS(Settle());
  while (!stopped_ && !Done()) {
    const std::optional<double> next = NextMs();
    if (!next) {
      return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
    }
    if (*next > run_.options.max_sim_time_ms.value_or(Collector::kNever)) {
      return RunEnd{ReplayEnd::kSimTimeReached, now_ms_};
    }
    const std::uint64_t queued = (prefill_.router ? prefill_.router->pending() : 0) +
                                 (decode_.router ? decode_.router->pending() : 0);
    if (queued > 0) {
      run_.collector.series().AddLoad({now_ms_, *next, queued, 0, std::nullopt});
    }
    now_ms_ = *next;
    UNDERSTUDY_TRY_STATUS(Settle());
  }
  return RunEnd{stopped_ ? ReplayEnd::kStopped : ReplayEnd::kWorkloadDone, now_ms_};
}

std::optional<double> DisaggregatedRun::NextMs() const {
  const std::optional<double> arrival = run_.workload.NextReadyMs();
  return Earliest(
      {arrival, events_.NextMs(), prefill_.pool.NextTransferMs(), decode_.pool.NextTransferMs()});
}

Status DisaggregatedRun::Settle() {
  for (bool changed = true; changed && !stopped_;) {
    changed = TakePassEnds();
    changed = TakeTransfers() || changed;
    changed = TakeHostTransfers() || changed;
    UNDERSTUDY_TRY(const bool arrived, TakeArrivals());
    changed = DoActions() || arrived || changed;
    UNDERSTUDY_TRY(const bool prefilled, DrivePrefill());
    UNDERSTUDY_TRY(const bool decoded, DriveDecode());
    changed = changed || prefilled || decoded;
  }
  return {};
}

bool DisaggregatedRun::TakePassEnds() {
  bool any = false;
  while (const auto due = events_.PopDue(now_ms_, /*transfer=*/false)) {
    const auto worker = static_cast<std::uint32_t>(due->subject);
    Stage& stage = due->kind == Kind::kPrefillPass ? prefill_ : decode_;
    stage.pool.SetBusy(worker, false);
    actions_.insert(actions_.end(), stage.deferred[worker].begin(), stage.deferred[worker].end());
    stage.deferred[worker].clear();
    due->kind == Kind::kPrefillPass ? EndPrefillPass(worker) : EndDecodePass(worker);
    any = true;
  }
  return any;
}

/// Between device and host, of idle workers.
bool DisaggregatedRun::TakeHostTransfers() {
  const bool prefill = prefill_.pool.CompleteTransfers(
      now_ms_, [this](std::uint32_t rank, const auto& events) { ToPrefillRouter(rank, events); });
  const bool decode =
      decode_.pool.CompleteTransfers(now_ms_, [this](std::uint32_t rank, const auto& /*events*/) {
        command_.Clear();
        decode_.pool[rank].scheduler->RetryDestination(command_);
        TakeNotices(std::vector<HandoffNotice>(command_.notices));
      });
  return prefill || decode;
}

bool DisaggregatedRun::TakeTransfers() {
  bool any = false;
  while (const auto due = events_.PopDue(now_ms_, /*transfer=*/true)) {
    Tell(RequestId{due->subject}, HandoffEvent::kTransferred);
    any = true;
  }
  return any;
}

Result<bool> DisaggregatedRun::TakeArrivals() {
  for (bool any = false;; any = true) {
    engine::Request request;
    UNDERSTUDY_TRY(const bool there, flow_.Next(now_ms_, request));
    if (!there) {
      return any;
    }
    const RequestId id = request.id;
    if (requests_.size() <= Value(id)) {
      requests_.resize(Value(id) + 1);
    }
    DisaggregatedRequest& entry = At(id);
    entry = {};
    entry.request = std::move(request);
    entry.priority = flow_.row().priority;
    entry.strict_priority = flow_.row().strict_priority;
    entry.coordinator = HandoffCoordinator(order_);
    ++open_;
    actions_.push_back({id, entry.coordinator.Start()});
  }
}

bool DisaggregatedRun::DoActions() {
  bool any = false;
  while (!actions_.empty()) {
    const QueuedAction queued = actions_.front();
    actions_.pop_front();
    any = Do(queued) || any;
  }
  return any;
}

/// False: it was put off until the worker's pass is over.
void DisaggregatedRun::Tell(RequestId id, HandoffEvent event) {
  next_actions_.clear();
  At(id).coordinator.On(event, next_actions_);
  for (const HandoffAction action : next_actions_) {
    actions_.push_back({id, action});
  }
}

void DisaggregatedRun::TakeNotices(const std::vector<HandoffNotice>& notices) {
  for (const HandoffNotice& notice : notices) {
    Collector::Handoff& times = run_.collector[notice.id].handoff;
    if (notice.kind == HandoffNotice::Kind::kSourceHeld) {
      times.source_held_ms = now_ms_;
      Tell(notice.id, HandoffEvent::kSourceHeld);
    } else {
      times.destination_reserved_ms = now_ms_;
      At(notice.id).transferable_tokens = notice.tokens;
      Tell(notice.id, HandoffEvent::kDestinationReserved);
    }
  }
}

void DisaggregatedRun::Finish(RequestId id, ReplayStatus status) {
  At(id).over = true;
  flow_.Finish(id, status, now_ms_, /*release=*/false);
  Retire(id);
}

void DisaggregatedRun::Retire(RequestId id) {
  DisaggregatedRequest& entry = At(id);
  if (!entry.over || !entry.coordinator.complete()) {
    return;
  }
  entry.request = {};
  --open_;
  flow_.Release(id);
}

Result<bool> DisaggregatedRun::StartPass(Stage& stage,
                                         Kind kind,
                                         std::uint32_t worker,
                                         double end_ms) {
  const auto ranks = stage.pool.RanksOf(worker);
  const bool fruitful = std::any_of(
      ranks.begin(), ranks.end(), [](const auto& rank) { return !rank.pass.outputs.empty(); });
  if (!stage.fruitless[worker].Count(fruitful)) {
    return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
  }
  stopped_ = stopped_ || !run_.collector.Progress(now_ms_);
  if (end_ms == now_ms_) {
    kind == Kind::kPrefillPass ? EndPrefillPass(worker) : EndDecodePass(worker);
  } else {
    stage.pool.SetBusy(worker, true);
    events_.Add(end_ms, kind, worker);
  }
  return !stopped_;
}

void DisaggregatedRun::ToPrefillRouter(std::uint32_t worker, bool at_end) {
  std::uint32_t number = worker * prefill_.pool.ranks_per_worker();
  for (const WorkerPool::Rank& rank : prefill_.pool.RanksOf(worker)) {
    if (rank.pass.events_at_end == at_end) {
      ToPrefillRouter(number, rank.pass.events);
    }
    ++number;
  }
}

Result<bool> DisaggregatedRun::DrivePrefill() {
  return DriveReady(
      prefill_.pool, now_ms_, run_.collector, [this](std::uint32_t worker, double end_ms) {
        for (WorkerPool::Rank& rank : prefill_.pool.RanksOf(worker)) {
          run_.collector.Admit(rank.pass, ReplayStage::kPrefill, now_ms_);
          WorkerPool::NoteSignals(rank, /*first_tokens=*/false, run_.collector);
        }
        ToPrefillRouter(worker, /*at_end=*/false);
        return StartPass(prefill_, Kind::kPrefillPass, worker, end_ms);
      });
}

Result<bool> DisaggregatedRun::DriveDecode() {
  return DriveReady(
      decode_.pool, now_ms_, run_.collector, [this](std::uint32_t worker, double end_ms) {
        for (WorkerPool::Rank& rank : decode_.pool.RanksOf(worker)) {
          run_.collector.Admit(rank.pass, ReplayStage::kDecode, now_ms_);
          WorkerPool::NoteSignals(rank, /*first_tokens=*/false, run_.collector);
          run_.collector.AddTokens(rank.pass.outputs, end_ms);
        }
        return StartPass(decode_, Kind::kDecodePass, worker, end_ms);
      });
}

void DisaggregatedRun::EndPrefillPass(std::uint32_t worker) {
  prefill_.pool.EndPass(worker, now_ms_);
  ToPrefillRouter(worker, /*at_end=*/true);
  for (const WorkerPool::Rank& rank : prefill_.pool.RanksOf(worker)) {
    EndPrefillPass(rank);
  }
}

void DisaggregatedRun::EndPrefillPass(const WorkerPool::Rank& rank) {
  for (const PassSignal& signal : rank.signals) {
    if (signal.status != ReplayStatus::kCompleted) {
      run_.collector[signal.id].status = signal.status;
      Tell(signal.id, HandoffEvent::kFailed);
    } else if (prefill_.router) {
      prefill_.router->OnPrefillCompleted(signal.id, prefill_admissions_);
      DispatchPrefill();
    }
  }
  TakeNotices(rank.pass.notices);
}

void DisaggregatedRun::EndDecodePass(std::uint32_t worker) {
  decode_.pool.EndPass(worker, now_ms_);
  for (const WorkerPool::Rank& rank : decode_.pool.RanksOf(worker)) {
    EndDecodePass(rank);
  }
}

void DisaggregatedRun::EndDecodePass(const WorkerPool::Rank& rank) {
  command_.Clear();
  rank.scheduler->RetryDestination(command_);
  const std::vector<HandoffNotice> reserved = command_.notices;
  decode_.pool.TouchRank(static_cast<std::uint32_t>(&rank - &decode_.pool[0]));
  for (const PassSignal& signal : rank.signals) {
    if (decode_.router) {
      At(signal.id).in_decode_router = false;
      decode_.router->OnCompleted(signal.id, decode_admissions_);
    }
    Finish(signal.id, signal.status);
    DispatchDecode();
  }
  TakeNotices(rank.pass.notices);
  TakeNotices(reserved);
}

Result<RunEnd> RunDisaggregated(const ReplayRun& run, WorkerPool& prefill, WorkerPool& decode) {
  return DisaggregatedRun(run, prefill, decode).Run();
}

}  // namespace understudy::mocker
