// The simulated workers of one kind.
#pragma once

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/replay/collector.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"

#include <cstdint>
#include <memory>
#include <optional>
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

/// Not thread safe.
class WorkerPool {
 public:
  struct Worker {
    SchedulerConfig config;
    std::unique_ptr<RankScheduler> scheduler;
    bool busy = false;  ///< the modelled time of a pass is running
    PassOutput pass;
    std::vector<PassSignal> signals;  ///< of `pass`
  };

  /// `workers` alike, each with random numbers of its own. Errors: as EngineSetup::New.
  [[nodiscard]] static Result<std::unique_ptr<WorkerPool>> New(MockerOptions options,
                                                               std::uint32_t workers,
                                                               bool kv_events,
                                                               std::uint64_t seed);

  [[nodiscard]] Worker& operator[](std::uint32_t index) { return *workers_[index]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  [[nodiscard]] const SchedulerConfig& config() const { return setup_->config(); }
  [[nodiscard]] std::uint64_t preemptions() const;

  /// The workers take turns.
  [[nodiscard]] std::uint32_t NextInTurn();

  /// To be called when a worker got or lost requests, or became busy or idle.
  void Touch(std::uint32_t index);
  /// The first worker from `from` on that has requests and is not busy; size() if there is none.
  [[nodiscard]] std::uint32_t FirstReady(std::uint32_t from) const;

  /// Runs a pass from `now_ms` on and tells the collector about its load; returns its end.
  double RunPass(std::uint32_t index, double now_ms, Collector& collector);
  /// Fills the worker's signals: ends and, with `first_tokens`, first tokens. Before the collector
  /// knows the pass's tokens.
  void NoteSignals(std::uint32_t index, bool first_tokens, const Collector& collector);

 private:
  WorkerPool() = default;

  std::unique_ptr<EngineSetup> setup_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::uint64_t> ready_;  ///< a bit a worker
  std::uint32_t turn_ = 0;
};

/// Runs the workers that can start a pass at one moment, the lowest first, one effect at a time.
/// `handle(index, end_ms)` is called for each pass that took time or changed something; it returns
/// Result<bool>, false = stop. True: some pass was.
template <class Handle>
[[nodiscard]] Result<bool> DriveReady(WorkerPool& pool,
                                      double now_ms,
                                      Collector& collector,
                                      Handle handle) {
  bool changed = false;
  for (std::uint32_t index = pool.FirstReady(0); index < pool.size();) {
    const double end_ms = pool.RunPass(index, now_ms, collector);
    const PassOutput& pass = pool[index].pass;
    const bool effect = end_ms != now_ms || pass.progressed || !pass.outputs.empty() ||
                        !pass.admissions.empty() || !pass.events.empty() || !pass.notices.empty();
    if (!effect) {  // it waits for something; trying again now would change nothing
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
