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
      return tl::make_unexpected(DeadEnd(flow_.in_flight()));
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
  const std::optional<double> event = events_.NextMs();
  return arrival && event ? std::min(*arrival, *event) : (arrival ? arrival : event);
}

Status DisaggregatedRun::Settle() {
  for (bool changed = true; changed && !stopped_;) {
    changed = TakePassEnds();
    changed = TakeTransfers() || changed;
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
    stage.pool[worker].busy = false;
    actions_.insert(actions_.end(), stage.deferred[worker].begin(), stage.deferred[worker].end());
    stage.deferred[worker].clear();
    due->kind == Kind::kPrefillPass ? EndPrefillPass(worker) : EndDecodePass(worker);
    any = true;
  }
  return any;
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
  WorkerPool::Worker& w = stage.pool[worker];
  if (!stage.fruitless[worker].Count(w.pass)) {
    return tl::make_unexpected(DeadEnd(flow_.in_flight()));
  }
  stopped_ = stopped_ || !run_.collector.Progress(now_ms_);
  if (end_ms == now_ms_) {
    kind == Kind::kPrefillPass ? EndPrefillPass(worker) : EndDecodePass(worker);
  } else {
    w.busy = true;
    stage.pool.Touch(worker);
    events_.Add(end_ms, kind, worker);
  }
  return !stopped_;
}

Result<bool> DisaggregatedRun::DrivePrefill() {
  return DriveReady(
      prefill_.pool, now_ms_, run_.collector, [this](std::uint32_t worker, double end_ms) {
        const PassOutput& pass = prefill_.pool[worker].pass;
        for (const engine::Admission& admission : pass.admissions) {
          run_.collector.Admit(
              admission.id, ReplayStage::kPrefill, now_ms_, admission.cached_tokens);
        }
        if (!pass.events_at_end) {
          ToPrefillRouter(worker, pass.events);
        }
        prefill_.pool.NoteSignals(worker, /*first_tokens=*/false, run_.collector);
        return StartPass(prefill_, Kind::kPrefillPass, worker, end_ms);
      });
}

Result<bool> DisaggregatedRun::DriveDecode() {
  return DriveReady(
      decode_.pool, now_ms_, run_.collector, [this](std::uint32_t worker, double end_ms) {
        const PassOutput& pass = decode_.pool[worker].pass;
        for (const engine::Admission& admission : pass.admissions) {
          run_.collector.Admit(
              admission.id, ReplayStage::kDecode, now_ms_, admission.cached_tokens);
        }
        decode_.pool.NoteSignals(worker, /*first_tokens=*/false, run_.collector);
        run_.collector.AddTokens(pass.outputs, end_ms);
        return StartPass(decode_, Kind::kDecodePass, worker, end_ms);
      });
}

void DisaggregatedRun::EndPrefillPass(std::uint32_t worker) {
  WorkerPool::Worker& w = prefill_.pool[worker];
  prefill_.pool.Touch(worker);
  if (w.pass.events_at_end) {
    ToPrefillRouter(worker, w.pass.events);
  }
  for (const PassSignal& signal : w.signals) {
    if (signal.status != ReplayStatus::kCompleted) {
      run_.collector[signal.id].status = signal.status;
      Tell(signal.id, HandoffEvent::kFailed);
    } else if (prefill_.router) {
      prefill_.router->OnPrefillCompleted(signal.id, prefill_admissions_);
      DispatchPrefill();
    }
  }
  TakeNotices(w.pass.notices);
}

void DisaggregatedRun::EndDecodePass(std::uint32_t worker) {
  WorkerPool::Worker& w = decode_.pool[worker];
  command_.Clear();
  w.scheduler->RetryDestination(command_);
  const std::vector<HandoffNotice> reserved = command_.notices;
  decode_.pool.Touch(worker);
  for (const PassSignal& signal : w.signals) {
    if (decode_.router) {
      At(signal.id).in_decode_router = false;
      decode_.router->OnCompleted(signal.id, decode_admissions_);
    }
    Finish(signal.id, signal.status);
    DispatchDecode();
  }
  TakeNotices(w.pass.notices);
  TakeNotices(reserved);
}

Result<RunEnd> RunDisaggregated(const ReplayRun& run, WorkerPool& prefill, WorkerPool& decode) {
  return DisaggregatedRun(run, prefill, decode).Run();
}

}  // namespace understudy::mocker
