// One rank of the simulated engine: continuous batching over paged KV blocks, in virtual time.
#pragma once

#include "plugin/mocker/kv_cache/block_pool.h"
#include "plugin/mocker/kv_cache/index_table.h"
#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/policy.h"
#include "plugin/mocker/scheduler/pass_output.h"
#include "plugin/mocker/scheduler/request_state.h"
#include "plugin/mocker/scheduler/waiting_queue.h"
#include "understudy/engine/types.h"
#include "understudy/mocker/mocker_engine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Shared by all ranks of an engine; outlives them.
struct SchedulerConfig {
  std::uint64_t blocks_total = 16384;
  std::uint32_t block_size = 64;
  std::uint32_t running_max = 0;  ///< 0 = unlimited
  std::uint64_t budget = 0;       ///< tokens of a pass, 0 = unlimited
  bool prefix_caching = true;
  bool chunked_prefill = true;
  bool kv_events = true;
  bool strict_reference = false;
  bool collect_stats = false;
  PreemptionMode preemption = PreemptionMode::kLifo;
  WorkerType worker_type = WorkerType::kAggregated;
  double speedup_ratio = 1.0;
  double decode_speedup_ratio = 1.0;
  std::uint64_t seed = 42;
  const SchedulingPolicy* policy = nullptr;
  const PerfModel* perf_model = nullptr;
};

/// Pure: no clock, no thread, no log. A pass computes all its effects at once; the caller shows
/// events when the pass starts and outputs when its modelled time is over. Between passes requests
/// may be submitted and cancelled. Not thread safe. An idle scheduler that never had a request owns
/// no memory beyond itself. Source: dynamo-mocker 1.3.0 scheduler/vllm/core.rs; golden vectors
/// pass_vllm_*.json and replay_synth_vllm_*.json.
class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, RankIndex rank);

  /// Joins at the next pass. `request` was checked by the caller (engine::Engine::Submit); its id
  /// is new.
  void Submit(engine::Request request);

  /// Frees the request's slot and blocks at once; no output follows. False when the id is unknown
  /// (or already over). With strict_reference only its output ends.
  bool Cancel(RequestId id);

  [[nodiscard]] bool HasWork() const { return running_count_ > 0 || !waiting_.empty(); }

  /// Clears and fills `output`.
  void RunPass(PassOutput& output);

  [[nodiscard]] engine::Load load() const;
  /// Requests that were never admitted so far: what the bound of waiting requests counts.
  [[nodiscard]] std::uint32_t unadmitted() const { return unadmitted_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  /// Checks the pool and that the requests hold exactly what it calls active. Empty if all is well.
  /// For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 private:
  using Status = RequestState::Status;
  enum class Scheduled : std::uint8_t { kYes, kBlocked, kSelfPreempted };
  /// Leading prompt tokens that are there already, in all, and in blocks that others hold.
  struct PrefixCost {
    std::uint64_t cached = 0;
    std::uint64_t active = 0;
  };

  // queues.cc
  std::uint32_t NewEntry();
  void EnterRunning(std::uint32_t index);
  void ReleaseBlocks(RequestState& request);
  void Retire(std::uint32_t index);
  std::uint32_t PreemptOne();
  void UndoPart(RequestState& victim);
  void EndWithout(std::uint32_t index, engine::OutputKind kind, std::string message);
  void CompactRunning();

  // admission.cc
  void ScheduleRunning();
  void AdmitWaiting();
  [[nodiscard]] bool Fits(const RequestState& request, const PrefixCost& cost) const;
  [[nodiscard]] PrefixCost CostOf(const RequestState& request) const;
  [[nodiscard]] Candidate CandidateOf(const RequestState& request, const PrefixCost& cost) const;
  Scheduled SchedulePart(std::uint32_t index, const PrefixCost* cost);
  enum class Allocated : std::uint8_t { kYes, kNoBlocks, kSelfPreempted };
  Allocated Allocate(std::uint32_t index, std::uint64_t target);

  // decode.cc
  void Decode();
  void CollectReady();
  bool EmitToken(std::uint32_t index);
  bool OpenBlockFor(std::uint32_t index);
  void Emit(RequestState& request, std::uint32_t index);

  // scheduler.cc, stats.cc
  void FailDeadEnd();
  void FinishStats();

  const SchedulerConfig& config_;
  const RankIndex rank_;
  BlockPool pool_;
  std::vector<RequestState> requests_;
  std::vector<std::uint32_t> unused_;  ///< entries of requests_
  std::vector<std::uint32_t>
      retired_;  ///< over while running_ names them: unused after CompactRunning
  IndexTable by_id_;
  WaitingQueue waiting_;
  std::vector<std::uint32_t>
      running_;  ///< in order of admission; entries that are gone are skipped
  std::uint32_t running_count_ = 0;
  std::uint32_t unadmitted_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t pass_gaps_ = 0;  ///< tokens of this pass whose request had one in the pass before
  std::uint64_t token_gaps_ = 0;
  Nanoseconds token_gap_time_{0};
  std::uint64_t passes_ = 0;

  // Of the running pass.
  PassOutput* output_ = nullptr;
  std::uint64_t budget_ = 0;
  PrefillBatch prefill_batch_;
  bool preempted_any_ = false;
  std::uint64_t part_used_ = 0;  ///< tokens of the part scheduled last
  std::vector<std::uint32_t> ready_;
  std::vector<engine::Output> endings_;  ///< without a token, reported after the tokens
};

}  // namespace understudy::mocker
