// The simulated workers of one kind.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/replay/collector.h"
#include "plugin/mocker/scheduler/rank_group.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace understudy::mocker {

/// `at_ms` and what a pass takes, summed as the reference does: two durations in whole nanoseconds,
/// each turned into seconds and then into milliseconds.
[[nodiscard]] double PassEndMs(double at_ms, const PassOutput& pass);

/// A first token or the end of a request in a pass, for what is done when the pass is over.
struct PassSignal {
  RequestId id{};
  bool over = false;
  ReplayStatus status = ReplayStatus::kCompleted;
};

/// Workers of some ranks each (1.3: of one), which share passes; ranks are numbered through all of
/// them. Not thread safe.
class WorkerPool {
 public:
  struct Rank {
    RankScheduler* scheduler = nullptr;
    PassOutput pass;
    std::vector<PassSignal> signals;  ///< of `pass`
  };

  /// `workers` alike, each with random numbers of its own. Errors: as EngineSetup::New.
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> New(MockerOptions options,
                                                               std::uint32_t workers,
                                                               bool kv_events,
                                                               std::uint64_t seed);

  /// Ranks of all workers.
  [[nodiscard]] Rank& operator[](std::uint32_t rank) { return ranks_[rank]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] std::uint32_t workers() const {
    return static_cast<std::uint32_t>(workers_.size());
  }
  [[nodiscard]] std::uint32_t ranks_per_worker() const { return ranks_per_worker_; }
  [[nodiscard]] std::uint32_t WorkerOf(std::uint32_t rank) const {
    return rank / ranks_per_worker_;
  }
  /// The ranks of a worker.
  [[nodiscard]] std::span<Rank> RanksOf(std::uint32_t worker) {
    return std::span(ranks_).subspan(worker * ranks_per_worker_, ranks_per_worker_);
  }
  /// The modelled time of a worker's pass is running.
  [[nodiscard]] bool IsBusy(std::uint32_t worker) const { return workers_[worker]->busy; }
  void SetBusy(std::uint32_t worker, bool busy);
  [[nodiscard]] const SchedulerConfig& config() const { return setup_->config(); }
  [[nodiscard]] std::uint64_t preemptions() const;

  /// The workers take turns, and within each its ranks. Gives a rank.
  [[nodiscard]] std::uint32_t NextInTurn();

  /// To be called when a worker got or lost requests.
  void Touch(std::uint32_t worker);
  void TouchRank(std::uint32_t rank) { Touch(WorkerOf(rank)); }
  /// The first worker from `from` on that has requests and is not busy; workers() if there is none.
  [[nodiscard]] std::uint32_t FirstReady(std::uint32_t from) const;

  /// Runs a worker's pass from `now_ms` on and tells the collector about its load and the prompt
  /// tokens that it computes; returns its end.
  double RunPass(std::uint32_t worker, double now_ms, Collector& collector);
  /// The time of the worker's pass is over: transfers that it prepared begin. What that tells comes
  /// behind the events of the pass.
  void EndPass(std::uint32_t worker, double now_ms);

  /// When a transfer to or from host memory ends on a worker that is not busy; none without any.
  [[nodiscard]] std::optional<double> NextTransferMs() const;
  /// Ends those that are due; `tell(rank, events)` is called for each rank that had one. True:
  /// there was one.
  template <class Tell>
  bool CompleteTransfers(double now_ms, Tell tell);

  /// Something happened in the worker's pass, which ends at `end_ms`.
  [[nodiscard]] bool HadEffect(std::uint32_t worker, double now_ms, double end_ms) const;
  /// Fills the rank's signals: ends and, with `first_tokens`, first tokens. Before the collector
  /// knows the pass's tokens.
  static void NoteSignals(Rank& rank, bool first_tokens, const Collector& collector);

 private:
  struct Worker {
    Worker(const SchedulerConfig& worker_config, std::uint32_t first, std::uint32_t count)
        : config(worker_config), group(config, first, count) {}

    SchedulerConfig config;
    RankGroup group;
    std::vector<PassOutput*> passes;  ///< of its ranks
    bool busy = false;
    std::uint32_t turn = 0;  ///< the rank that gets the next request
  };

  WorkerPool() = default;

  std::unique_ptr<EngineSetup> setup_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Rank> ranks_;
  std::uint32_t ranks_per_worker_ = 1;
  std::vector<std::uint64_t> ready_;  ///< a bit a worker
  std::uint32_t turn_ = 0;
  bool has_host_tier_ = false;
  CommandOutput command_;
};

/// A moment of simulated time as schedulers count it.
[[nodiscard]] Nanoseconds ToNanoseconds(double ms);

template <class Tell>
bool WorkerPool::CompleteTransfers(double now_ms, Tell tell) {
  bool any = false;
  for (std::uint32_t worker = 0; has_host_tier_ && worker < workers(); ++worker) {
    const Nanoseconds now = ToNanoseconds(now_ms);
    const std::optional<Nanoseconds> next = workers_[worker]->group.NextTransfer();
    if (IsBusy(worker) || !next || *next > now) {
      continue;
    }
    any = true;
    for (std::uint32_t i = 0; i < ranks_per_worker_; ++i) {
      const std::uint32_t rank = worker * ranks_per_worker_ + i;
      command_.Clear();
      ranks_[rank].scheduler->CompleteTransfers(now, command_);
      tell(rank, command_.events);
    }
    Touch(worker);
  }
  return any;
}

/// Runs the workers that can start a pass at one moment, the lowest first, one effect at a time.
/// `handle(worker, end_ms)` is called for each pass that took time or changed something; it returns
/// Result<bool>, false = stop. True: some pass was.
template <class Handle>
[[nodiscard]] Result<bool> DriveReady(WorkerPool& pool,
                                      double now_ms,
                                      Collector& collector,
                                      Handle handle) {
  bool changed = false;
  for (std::uint32_t index = pool.FirstReady(0); index < pool.workers();) {
    const double end_ms = pool.RunPass(index, now_ms, collector);
    if (!pool.HadEffect(index, now_ms, end_ms)) {
      // It waits for something; trying again now would change nothing.
      index = pool.FirstReady(index + 1);
      continue;
    }
    changed = true;
    UNDERSTUDY_TRY(const bool goes_on, handle(index, end_ms));
    if (!goes_on) {
      break;
    }
    index = pool.FirstReady(0);
  }
  return changed;
}

}  // namespace understudy::mocker
