#include "understudy/mocker/replay.h"

#include "plugin/mocker/replay/simulation.h"

#include <chrono>

namespace understudy::mocker {

namespace {

using WallClock = std::chrono::steady_clock;

struct Pools {
  std::unique_ptr<WorkerPool> workers;  ///< aggregated, or decode
  std::unique_ptr<WorkerPool> prefill;
};

Result<Pools> MakePools(const ReplayOptions& options) {
  const bool routed = options.router_mode == ReplayRouterMode::kKv;
  Pools pools;
  if (!options.prefill_engine) {
    UNDERSTUDY_TRY(pools.workers,
                   WorkerPool::New(options.engine.value_or(MockerOptions{}),
                                   options.num_workers,
                                   /*kv_events=*/routed,
                                   options.seed));
    return pools;
  }
  UNDERSTUDY_TRY(pools.prefill,
                 WorkerPool::New(*options.prefill_engine,
                                 options.num_prefill_workers,
                                 /*kv_events=*/routed,
                                 options.seed));
  // The decode router does not look at prefixes.
  UNDERSTUDY_TRY(pools.workers,
                 WorkerPool::New(*options.decode_engine,
                                 options.num_decode_workers,
                                 /*kv_events=*/false,
                                 options.seed + options.num_prefill_workers));
  return pools;
}

Result<RunEnd> Run(const ReplayRun& run, const Pools& pools) {
  if (pools.prefill) {
    return RunDisaggregated(run, *pools.prefill, *pools.workers);
  }
  return pools.workers->size() == 1 && ReleaseOf(run.options) == SemanticsRelease::k13
             ? RunSingle(run, *pools.workers)
             : RunCluster(run, *pools.workers);
}

}  // namespace

Result<ReplayReport> RunReplay(const ReplayOptions& options,
                               ReplaySource& source,
                               const ReplayObserver& observer) {
  UNDERSTUDY_TRY_STATUS(ValidateReplay(options));
  UNDERSTUDY_TRY(const Pools pools, MakePools(options));
  Workload workload(source, options.replay_concurrency, options.arrival_speedup_ratio);
  UNDERSTUDY_TRY_STATUS(workload.Open());
  const SemanticsRelease release = ReleaseOf(options);
  Collector collector(release, options.sla, observer, options.seed, source.rows_total());

  const WallClock::time_point started = WallClock::now();
  UNDERSTUDY_TRY(const RunEnd end, Run({options, workload, collector}, pools));

  const bool single = !pools.prefill && pools.workers->size() == 1;
  const bool until_last_token = single && release == SemanticsRelease::k13;
  Collector::Totals totals;
  totals.end = end.why;
  totals.end_ms = end.at_ms;
  totals.wall_time_ms =
      std::chrono::duration<double, std::milli>(WallClock::now() - started).count();
  totals.decode_workers = pools.workers->workers();
  totals.decode_gpus = options.gpus_per_worker;
  totals.static_workers = until_last_token;
  totals.preemptions = pools.workers->preemptions();
  if (pools.prefill) {
    totals.prefill_workers = pools.prefill->workers();
    totals.prefill_gpus = options.gpus_per_prefill_worker;
    totals.preemptions += pools.prefill->preemptions();
  }
  return collector.Report(totals);
}

}  // namespace understudy::mocker
