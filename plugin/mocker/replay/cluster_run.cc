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
      : run_(run), flow_(run), pool_(pool), fruitless_(pool.workers()) {
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
        return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
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
    return Earliest({arrival, events_.NextMs(), pool_.NextTransferMs()});
  }

  /// All that happens at this moment.
  Status Settle() {
    for (bool changed = true; changed && !stopped_;) {
      changed = false;
      while (const auto due = events_.PopDue(now_ms_, /*transfer=*/false)) {
        const auto worker = static_cast<std::uint32_t>(due->subject);
        pool_.SetBusy(worker, false);
        EndPass(worker);
        changed = true;
      }
      changed = pool_.CompleteTransfers(now_ms_, [this](std::uint32_t rank, const auto& events) {
        if (router_) {
          router_->OnEvents(rank, events);
        }
      }) || changed;
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
        Dispatch(pool_.NextInTurn(), std::nullopt, std::move(request));
        continue;
      }
      const RequestId id = request.id;
      run_.collector.Queue(id, ReplayStage::kAggregated, now_ms_);
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

  void Dispatch(std::uint32_t rank, std::optional<OverlapChoice> choice, engine::Request request) {
    const std::uint32_t overlap =
        choice ? choice->Tokens(pool_.config().block_size, request.prompt.size()) : 0;
    run_.collector[request.id].decode_worker = rank;
    run_.collector.Route(request.id,
                         {.stage = ReplayStage::kAggregated,
                          .routed_ms = now_ms_,
                          .worker = pool_.WorkerOf(rank),
                          .rank = rank % pool_.ranks_per_worker(),
                          .scheduler = rank,
                          .overlap_tokens = overlap,
                          .choice = choice});
    pool_[rank].scheduler->Submit(std::move(request));
    pool_.TouchRank(rank);
  }

  void DispatchAdmitted() {
    for (const RouterAdmission& admission : admissions_) {
      Dispatch(admission.worker, admission.overlap, std::move(parked_[Value(admission.id)]));
    }
    admissions_.clear();
  }

  /// False: the observer wants to stop.
  Result<bool> StartPass(std::uint32_t worker, double end_ms) {
    bool fruitful = false;
    std::uint32_t number = worker * pool_.ranks_per_worker();
    for (WorkerPool::Rank& rank : pool_.RanksOf(worker)) {
      run_.collector.Admit(rank.pass, ReplayStage::kAggregated, now_ms_);
      if (router_ && !rank.pass.events_at_end) {
        router_->OnEvents(number, rank.pass.events);
      }
      WorkerPool::NoteSignals(rank, router_.has_value(), run_.collector);
      run_.collector.AddTokens(rank.pass.outputs, end_ms);
      fruitful = fruitful || !rank.pass.outputs.empty();
      ++number;
    }
    if (!fruitless_[worker].Count(fruitful)) {
      return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
    }
    stopped_ = stopped_ || !run_.collector.Progress(now_ms_);
    if (end_ms == now_ms_) {
      EndPass(worker);
    } else {
      pool_.SetBusy(worker, true);
      events_.Add(end_ms, TimedEvent::Kind::kAggregatedPass, worker);
    }
    return !stopped_;
  }

  void EndPass(std::uint32_t worker) {
    pool_.EndPass(worker, now_ms_);
    std::uint32_t number = worker * pool_.ranks_per_worker();
    for (WorkerPool::Rank& rank : pool_.RanksOf(worker)) {
      if (router_ && rank.pass.events_at_end) {
        router_->OnEvents(number, rank.pass.events);
      }
      for (const PassSignal& signal : rank.signals) {
        EndSignal(signal);
      }
      ++number;
    }
  }

  void EndSignal(const PassSignal& signal) {
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
