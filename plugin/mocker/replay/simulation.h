// What the ways to run a workload have in common.
#pragma once

#include "plugin/mocker/replay/collector.h"
#include "plugin/mocker/replay/flat_map.h"
#include "plugin/mocker/replay/worker_pool.h"
#include "plugin/mocker/replay/workload.h"
#include "understudy/base/result.h"
#include "understudy/engine/types.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Bounds of what is under way at once (tokens: 4 GiB); a workload that arrives faster than it is
/// served grows without end.
inline constexpr std::uint64_t kReplayInFlightMax = 1ULL << 22U;
inline constexpr std::uint64_t kReplayTokensInFlightMax = 1ULL << 30U;  ///< of their prompts

/// Passes in a row without a token or an end after which a run counts as stuck: a request that
/// outgrows its pool is recomputed for ever under strict_reference.
inline constexpr std::uint64_t kFruitlessPassesMax = 1ULL << 20U;

/// None counts as never.
[[nodiscard]] std::optional<double> Earliest(std::initializer_list<std::optional<double>> times);

/// Everything a run works with; all of it outlives the run.
struct ReplayRun {
  const ReplayOptions& options;
  Workload& workload;
  Collector& collector;
};

/// How a run ended.
struct RunEnd {
  ReplayEnd why = ReplayEnd::kWorkloadDone;
  double at_ms = 0.0;
};

struct FlowLimits {
  std::uint64_t requests = kReplayInFlightMax;
  std::uint64_t tokens = kReplayTokensInFlightMax;
};

/// Of the engines of a run.
[[nodiscard]] SemanticsRelease ReleaseOf(const ReplayOptions& options);

/// Takes arrivals from the workload and tells the collector what becomes of them.
class RequestFlow {
 public:
  explicit RequestFlow(const ReplayRun& run, const FlowLimits& limits = {})
      : run_(run), limits_(limits), numbers_ids_(ReleaseOf(run.options) == SemanticsRelease::k16) {}

  /// The next request that is ready at `now_ms`, known to the collector. False: there is none.
  /// Errors: the source's; kOverloaded beyond the bounds above.
  [[nodiscard]] Result<bool> Next(double now_ms, engine::Request& request);
  /// Priorities of the request that Next gave last.
  [[nodiscard]] const ReplayRow& row() const { return row_; }

  /// The request is over: the session goes on, and with `release` its id is free.
  void Finish(RequestId id, ReplayStatus status, double at_ms, bool release);
  void Release(RequestId id) { run_.collector.Release(id); }

  /// Requests given out and not finished.
  [[nodiscard]] std::uint64_t in_flight() const { return in_flight_; }

 private:
  /// Prompt tokens that a hash id stands for: of 1.3 its lower half, of 1.6 its number in the order
  /// of first appearance.
  [[nodiscard]] std::uint32_t TokenOf(std::uint64_t hash_id);
  void MakePrompt(std::vector<std::uint32_t>& out);

  const ReplayRun run_;
  const FlowLimits limits_;
  const bool numbers_ids_;
  FlatMap<std::uint32_t> numbers_;  ///< of hash ids, from 1; an entry for each different one
  ReplayRow row_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t tokens_ = 0;
};

/// Counts passes that bring nothing.
class FruitlessPasses {
 public:
  /// False: too many in a row.
  [[nodiscard]] bool Count(bool fruitful) {
    passes_ = fruitful ? 0 : passes_ + 1;
    return passes_ < kFruitlessPassesMax;
  }

 private:
  std::uint64_t passes_ = 0;
};

/// The release's text.
[[nodiscard]] Error DeadEnd(SemanticsRelease release, std::uint64_t in_flight);

/// One aggregated worker: a loop, no queue of events.
[[nodiscard]] Result<RunEnd> RunSingle(const ReplayRun& run, WorkerPool& pool);
/// Several aggregated workers.
[[nodiscard]] Result<RunEnd> RunCluster(const ReplayRun& run, WorkerPool& pool);
/// Prefill and decode workers.
[[nodiscard]] Result<RunEnd> RunDisaggregated(const ReplayRun& run,
                                              WorkerPool& prefill,
                                              WorkerPool& decode);

}  // namespace understudy::mocker
