// One worker: passes back to back, idle time skipped. Source: dynamo-mocker 1.3.0
// replay/offline/single.rs.
#include "plugin/mocker/replay/simulation.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

/// Passes in a row that take no time and change nothing. An SGLang worker may need 600 of them to
/// lower what it reserves for outputs.
constexpr std::uint32_t kIdlePassesMax = 1024;

class SingleRun {
 public:
  SingleRun(const ReplayRun& run, WorkerPool& pool)
      : run_(run), flow_(run), worker_(pool[0]), pool_(pool) {}

  Result<RunEnd> Run() {
    while (!Done()) {
      if (now_ms_ > run_.options.max_sim_time_ms.value_or(Collector::kNever)) {
        return RunEnd{ReplayEnd::kSimTimeReached, now_ms_};
      }
      UNDERSTUDY_TRY_STATUS(Enqueue());
      if (!worker_.scheduler->HasWork()) {
        if (Done()) {
          break;
        }
        UNDERSTUDY_TRY_STATUS(SkipIdleTime());
        continue;
      }
      UNDERSTUDY_TRY_STATUS(Pass());
      if (!run_.collector.Progress(now_ms_)) {
        return RunEnd{ReplayEnd::kStopped, now_ms_};
      }
    }
    return RunEnd{ReplayEnd::kWorkloadDone, now_ms_};
  }

 private:
  [[nodiscard]] bool Done() const { return flow_.in_flight() == 0 && run_.workload.drained(); }

  Status Enqueue() {
    for (;;) {
      UNDERSTUDY_TRY(const bool there, flow_.Next(now_ms_, request_));
      if (!there) {
        return {};
      }
      worker_.scheduler->Submit(std::move(request_));
    }
  }

  Status SkipIdleTime() {
    const std::optional<double> next = run_.workload.NextReadyMs();
    if (!next) {
      return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
    }
    now_ms_ = std::max(now_ms_, *next);
    return run_.workload.closed_loop() ? Status{} : Enqueue();
  }

  Status Pass() {
    const double start_ms = now_ms_;
    now_ms_ = pool_.RunPass(0, start_ms, run_.collector);
    const PassOutput& pass = worker_.pass;
    run_.collector.Admit(pass, ReplayStage::kAggregated, start_ms);
    WorkerPool::NoteSignals(worker_, /*first_tokens=*/false, run_.collector);
    run_.collector.AddTokens(pass.outputs, now_ms_);
    for (const PassSignal& signal : worker_.signals) {
      flow_.Finish(signal.id, signal.status, now_ms_, /*release=*/true);
    }
    if (!run_.workload.closed_loop()) {
      UNDERSTUDY_TRY_STATUS(Enqueue());
    }
    return CheckProgress(now_ms_ > start_ms || pass.progressed || !pass.admissions.empty() ||
                         !pass.outputs.empty());
  }

  Status CheckProgress(bool progressed) {
    idle_passes_ = progressed ? 0 : idle_passes_ + 1;
    const bool stuck =
        idle_passes_ >= kIdlePassesMax || !fruitless_.Count(!worker_.pass.outputs.empty());
    if (stuck && worker_.scheduler->HasWork()) {
      return tl::make_unexpected(DeadEnd(ReleaseOf(run_.options), flow_.in_flight()));
    }
    return {};
  }

  const ReplayRun run_;
  RequestFlow flow_;
  WorkerPool::Rank& worker_;
  WorkerPool& pool_;
  engine::Request request_;
  double now_ms_ = 0.0;
  std::uint32_t idle_passes_ = 0;
  FruitlessPasses fruitless_;
};

}  // namespace

Result<RunEnd> RunSingle(const ReplayRun& run, WorkerPool& pool) {
  return SingleRun(run, pool).Run();
}

}  // namespace understudy::mocker
