// Prefill and decode workers with a hand-off between them.
#pragma once

#include "plugin/mocker/replay/event_queue.h"
#include "plugin/mocker/replay/handoff_coordinator.h"
#include "plugin/mocker/replay/kv_router.h"
#include "plugin/mocker/replay/simulation.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace understudy::mocker {

struct DisaggregatedRequest {
  engine::Request request;  ///< as it arrived; the prompt goes to the decode worker
  std::int32_t priority = 0;
  std::uint32_t strict_priority = 0;
  HandoffCoordinator coordinator{HandoffOrder::kSourceFirst};
  std::uint64_t transferable_tokens = 0;
  bool over = false;  ///< decoded, or given up
  bool in_prefill_router = false;
  bool in_decode_router = false;
};

struct QueuedAction {
  RequestId id{};
  HandoffAction action = HandoffAction::kComplete;
};

/// One of the two stages.
struct Stage {
  Stage(WorkerPool& workers, const ReplayOptions& options, KvRouterOptions router_options)
      : pool(workers), deferred(workers.workers()), fruitless(workers.workers()) {
    if (options.router_mode == ReplayRouterMode::kKv) {
      router.emplace(KvRouter::Config{.options = router_options,
                                      .block_size = workers.config().block_size,
                                      .max_batched_tokens = workers.config().budget,
                                      .workers = workers.size(),
                                      .seed = options.seed});
    }
  }

  WorkerPool& pool;
  std::optional<KvRouter> router;
  std::vector<std::vector<QueuedAction>> deferred;  ///< by worker: until its pass is over
  std::vector<FruitlessPasses> fruitless;
};

/// A run with both stages. Not thread safe.
class DisaggregatedRun {
 public:
  DisaggregatedRun(const ReplayRun& run, WorkerPool& prefill, WorkerPool& decode);

  Result<RunEnd> Run();

 private:
  [[nodiscard]] bool Done() const {
    return events_.empty() && actions_.empty() && open_ == 0 && run_.workload.drained();
  }
  [[nodiscard]] std::optional<double> NextMs() const;
  Status Settle();
  bool TakePassEnds();
  bool TakeTransfers();
  bool TakeHostTransfers();
  Result<bool> TakeArrivals();
  bool DoActions();
  Result<bool> DrivePrefill();
  Result<bool> DriveDecode();

  bool Do(const QueuedAction& queued);
  bool Defer(Stage& stage, std::uint32_t rank, const QueuedAction& queued);
  void StartTransfer(RequestId id);
  void Activate(RequestId id, std::uint32_t rank);
  void ReleaseSource(RequestId id, std::uint32_t rank);
  void CancelSource(RequestId id, std::uint32_t rank);
  void CancelDestination(RequestId id, std::uint32_t rank);
  void Complete(RequestId id);

  void RoutePrefill(RequestId id);
  void RouteDestination(RequestId id);
  using Choice = std::optional<OverlapChoice>;  ///< none without a KV router
  void SubmitPrefill(RequestId id, std::uint32_t rank, Choice choice);
  void Reserve(RequestId id, std::uint32_t rank, Choice choice);
  void NoteRoute(RequestId id, ReplayStage stage, std::uint32_t rank, Choice choice);
  void DispatchPrefill();
  void DispatchDecode();
  void LeavePrefillRouter(RequestId id);
  void LeaveDecodeRouter(RequestId id);

  Result<bool> StartPass(Stage& stage, TimedEvent::Kind kind, std::uint32_t worker, double end_ms);
  void EndPrefillPass(std::uint32_t worker);
  void EndDecodePass(std::uint32_t worker);
  void EndPrefillPass(const WorkerPool::Rank& rank);
  void EndDecodePass(const WorkerPool::Rank& rank);
  void Tell(RequestId id, HandoffEvent event);
  void TakeNotices(const std::vector<HandoffNotice>& notices);
  void Finish(RequestId id, ReplayStatus status);
  void Retire(RequestId id);
  void ToPrefillRouter(std::uint32_t rank, const std::vector<engine::KvEvent>& events) {
    if (prefill_.router) {
      prefill_.router->OnEvents(rank, events);
    }
  }
  /// Events of the worker's pass that are visible now, when it starts or ends.
  void ToPrefillRouter(std::uint32_t worker, bool at_end);
  [[nodiscard]] DisaggregatedRequest& At(RequestId id) { return requests_[Value(id)]; }

  const ReplayRun run_;
  RequestFlow flow_;
  Stage prefill_;
  Stage decode_;
  const HandoffOrder order_;
  EventQueue events_;
  std::deque<QueuedAction> actions_;
  std::vector<DisaggregatedRequest> requests_;  ///< by id
  std::uint64_t open_ = 0;                      ///< requests that are not retired
  std::vector<RouterAdmission> prefill_admissions_;
  std::vector<RouterAdmission> decode_admissions_;
  std::vector<HandoffAction> next_actions_;
  CommandOutput command_;
  double now_ms_ = 0.0;
  bool stopped_ = false;
};

}  // namespace understudy::mocker
