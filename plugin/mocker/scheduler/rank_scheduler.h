// One rank of a simulated engine, whatever family it belongs to.
#pragma once

#include "plugin/mocker/scheduler/pass_output.h"
#include "plugin/mocker/scheduler/scheduler_config.h"
#include "understudy/base/result.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Where the blocks of a rank are: used + cached + free = total.
struct BlockCounts {
  std::uint64_t used = 0;    ///< by requests; shared ones count once
  std::uint64_t cached = 0;  ///< by nobody, but their contents can be reused
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

/// When and how a pass begins.
struct PassStart {
  Nanoseconds at{0};            ///< of the engine's modelled time
  bool defers_prompts = false;  ///< a busy rank begins no prompt in it; prefill_schedule_interval
};

/// Pure: no clock, no thread, no log. A pass computes all its effects at once; the caller shows
/// events when the pass starts (or ends, PassOutput::events_at_end) and outputs when its modelled
/// time is over. Between passes requests may be submitted and cancelled. Not thread safe.
class RankScheduler {
 public:
  virtual ~RankScheduler() = default;

  /// Joins at the next pass. `request` was checked by the caller (engine::Engine::Submit); its id
  /// is new.
  virtual void Submit(engine::Request request) = 0;

  /// Frees the request's slot and blocks at once; no output follows. False when the id is unknown
  /// (or already over). With strict_reference of 1.3 only its output ends. Events of it belong
  /// behind those of a pass whose modelled time is still running.
  virtual bool Cancel(RequestId id, CommandOutput& output) = 0;

  [[nodiscard]] virtual bool HasWork() const = 0;

  /// A pass that is shared with nobody, at the end of the one before: both halves.
  void RunPass(PassOutput& output);

  /// Clears and fills `output`, as if the rank were alone.
  virtual void ComputePass(const PassStart& start, PassOutput& output) = 0;
  /// To follow each ComputePass, when it is known what the others did.
  virtual void SettlePass(const SharedPass& pass) = 0;
  /// Its modelled time is over, `at` that moment: transfers that it prepared begin, and those that
  /// are due end. Before RetryDestination.
  virtual void EndPass(Nanoseconds /*at*/, CommandOutput& /*output*/) {}

  /// When a transfer between device and host ends that may give the rank work; none without host
  /// offload. CompleteTransfers is to be called then, but not while the time of a pass is running.
  [[nodiscard]] virtual std::optional<Nanoseconds> NextTransfer() const { return std::nullopt; }
  virtual void CompleteTransfers(Nanoseconds /*at*/, CommandOutput& /*output*/) {}

  /// Forgets the cached blocks that no request uses; their number, or none with kRefuse (see
  /// there). Not during the modelled time of a pass.
  virtual std::optional<std::uint64_t> ClearCache(engine::InUse in_use, CommandOutput& output) = 0;

  [[nodiscard]] virtual engine::Load load() const = 0;

  [[nodiscard]] virtual BlockCounts blocks() const = 0;
  /// Events numbered so far.
  [[nodiscard]] virtual std::uint64_t event_count() const = 0;

  /// Requests that were never admitted so far: what the bound of waiting requests counts.
  [[nodiscard]] virtual std::uint32_t unadmitted() const = 0;

  /// The blocks of a tier that routers should know of, sorted. For tests.
  [[nodiscard]] virtual std::vector<BlockHash> KnownBlocks(StorageTier tier) const = 0;

  /// Checks the cache, and that the requests hold exactly what it calls used. Empty if all is well.
  /// For tests.
  [[nodiscard]] virtual std::string CheckConsistency() const = 0;

  /// As Submit, but when the request has its last token its blocks stay until ReleaseSource or
  /// Cancel; PassOutput::notices says kSourceHeld with that token.
  virtual void SubmitSource(engine::Request request) = 0;
  /// Frees what a finished source holds. False: no such source, or it still runs.
  virtual bool ReleaseSource(RequestId id, CommandOutput& output) = 0;

  /// Asks for room for a prompt that was computed elsewhere. kDestinationReserved follows, in
  /// `output` or from a later RetryDestination or command, in the order of the calls; until then no
  /// new request is admitted. `in_pass`: the modelled time of a pass is running, so nothing is
  /// reserved before it is over. Errors: kUnsupported with the reference's text when the engine has
  /// no hand-off, kOverloaded when the prompt exceeds the pool.
  [[nodiscard]] virtual Status ReserveDestination(engine::Request request,
                                                  bool in_pass,
                                                  CommandOutput& output) = 0;
  /// To be called when the modelled time of a pass is over: the first of those that wait for room
  /// tries again if room may have come. One a call, as in the original.
  virtual void RetryDestination(CommandOutput& output) = 0;
  /// The prompt has arrived: the request joins without cost for it. False: not reserved.
  virtual bool ActivateDestination(RequestId id, CommandOutput& output) = 0;
  /// Takes back a reservation, or ends the request that came of it. False: unknown.
  virtual bool CancelDestination(RequestId id, CommandOutput& output) = 0;

 private:
  Nanoseconds end_{0};  ///< of the latest RunPass
};

/// `config` outlives the scheduler. An idle one that never had a request owns next to no memory.
[[nodiscard]] std::unique_ptr<RankScheduler> NewRankScheduler(const SchedulerConfig& config,
                                                              RankIndex rank);

}  // namespace understudy::mocker
