// Several aggregated workers behind a round robin or a KV router. Source: dynamo-mocker 1.3.0
// replay/offline/agg.rs.
#include "plugin/mocker/replay/event_queue.h"
#include "plugin/mocker/replay/kv_router.h"
#include "plugin/mocker/replay/simulation.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

class ClusterRun {
 public:
  ClusterRun(const ReplayRun& run, WorkerPool& pool)
      : run_(run), flow_(run), pool_(pool), fruitless_(pool.size()) {
    if (run.options.router_mode == ReplayRouterMode::kKv) {
      router_.emplace(KvRouter::Config{.options = run.options.router,
                                       .block_size = pool.config().block_size,
                                       .max_batched_tokens = pool.config().budget,
                                       .workers = pool.size(),
                                       .seed = run.options.seed});
    }
  }

  Result<RunEnd> Run() {
    UNDERSTUDY_TRY_STATUS(Settle());
    while (!stopped_ && !Done()) {
      const std::optional<double> next = NextMs();
      if (!next) {
        return tl::make_unexpected(DeadEnd(flow_.in_flight()));
      }
      if (*next > run_.options.max_sim_time_ms.value_or(Collector::kNever)) {
        return RunEnd{ReplayEnd::kSimTimeReached, now_ms_};
      }
      if (router_ && router_->pending() > 0) {
        run_.collector.series().AddLoad({now_ms_, *next, router_->pending(), 0, std::nullopt});
      }
      now_ms_ = *next;
      UNDERSTUDY_TRY_STATUS(Settle());
    }
    return RunEnd{stopped_ ? ReplayEnd::kStopped : ReplayEnd::kWorkloadDone, now_ms_};
  }

 private:
  [[nodiscard]] bool Done() const {
    return events_.empty() && flow_.in_flight() == 0 && run_.workload.drained();
  }

  [[nodiscard]] std::optional<double> NextMs() const {
    const std::optional<double> arrival = run_.workload.NextReadyMs();
    const std::optional<double> event = events_.NextMs();
    return arrival && event ? std::min(*arrival, *event) : (arrival ? arrival : event);
  }

  /// All that happens at this moment.
  Status Settle() {
    for (bool changed = true; changed && !stopped_;) {
      changed = false;
      while (const auto due = events_.PopDue(now_ms_, /*transfer=*/false)) {
        const auto worker = static_cast<std::uint32_t>(due->subject);
        pool_[worker].busy = false;
        EndPass(worker);
        changed = true;
      }
      UNDERSTUDY_TRY(const bool arrived, TakeArrivals());
      UNDERSTUDY_TRY(const bool driven,
                     DriveReady(pool_, now_ms_, run_.collector, [this](auto worker, auto end_ms) {
                       return StartPass(worker, end_ms);
                     }));
      changed = changed || arrived || driven;
    }
    return {};
  }

  Result<bool> TakeArrivals() {
    for (bool any = false;; any = true) {
      engine::Request request;
      UNDERSTUDY_TRY(const bool there, flow_.Next(now_ms_, request));
      if (!there) {
        return any;
      }
      if (!router_) {
        Dispatch(pool_.NextInTurn(), std::move(request));
        continue;
      }
      const RequestId id = request.id;
      router_->OnArrival({id, request.prompt, flow_.row().priority, flow_.row().strict_priority},
                         now_ms_,
                         admissions_);
      if (parked_.size() <= Value(id)) {
        parked_.resize(Value(id) + 1);
      }
      parked_[Value(id)] = std::move(request);
      DispatchAdmitted();
    }
  }

  void Dispatch(std::uint32_t worker, engine::Request request) {
    run_.collector[request.id].decode_worker = worker;
    pool_[worker].scheduler->Submit(std::move(request));
    pool_.Touch(worker);
  }

  void DispatchAdmitted() {
    for (const RouterAdmission& admission : admissions_) {
      Dispatch(admission.worker, std::move(parked_[Value(admission.id)]));
    }
    admissions_.clear();
  }

  /// False: the observer wants to stop.
  Result<bool> StartPass(std::uint32_t worker, double end_ms) {
    WorkerPool::Worker& w = pool_[worker];
    for (const engine::Admission& admission : w.pass.admissions) {
      run_.collector.Admit(
          admission.id, ReplayStage::kAggregated, now_ms_, admission.cached_tokens);
    }
    if (router_ && !w.pass.events_at_end) {
      router_->OnEvents(worker, w.pass.events);
    }
    pool_.NoteSignals(worker, router_.has_value(), run_.collector);
    run_.collector.AddTokens(w.pass.outputs, end_ms);
    if (!fruitless_[worker].Count(w.pass)) {
      return tl::make_unexpected(DeadEnd(flow_.in_flight()));
    }
    stopped_ = stopped_ || !run_.collector.Progress(now_ms_);
    if (end_ms == now_ms_) {
      EndPass(worker);
    } else {
      w.busy = true;
      pool_.Touch(worker);
      events_.Add(end_ms, TimedEvent::Kind::kAggregatedPass, worker);
    }
    return !stopped_;
  }

  void EndPass(std::uint32_t worker) {
    WorkerPool::Worker& w = pool_[worker];
    pool_.Touch(worker);
    if (router_ && w.pass.events_at_end) {
      router_->OnEvents(worker, w.pass.events);
    }
    for (const PassSignal& signal : w.signals) {
      if (router_ && signal.over) {
        router_->OnCompleted(signal.id, admissions_);
      } else if (router_) {
        router_->OnPrefillCompleted(signal.id, admissions_);
      }
      if (signal.over) {
        flow_.Finish(signal.id, signal.status, now_ms_, /*release=*/true);
      }
      DispatchAdmitted();
    }
  }

  const ReplayRun run_;
  RequestFlow flow_;
  WorkerPool& pool_;
  std::optional<KvRouter> router_;
  EventQueue events_;
  std::vector<engine::Request> parked_;  ///< by id: requests that the router has
  std::vector<RouterAdmission> admissions_;
  std::vector<FruitlessPasses> fruitless_;  ///< by worker
  double now_ms_ = 0.0;
  bool stopped_ = false;
};

}  // namespace

Result<RunEnd> RunCluster(const ReplayRun& run, WorkerPool& pool) {
  return ClusterRun(run, pool).Run();
}

}  // namespace understudy::mocker
