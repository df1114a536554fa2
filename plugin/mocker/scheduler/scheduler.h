// One rank of the simulated engine: continuous batching over paged KV blocks, in virtual time.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"
#include "plugin/mocker/kv_cache/kv_pool.h"
#include "plugin/mocker/scheduler/host_offload.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"
#include "plugin/mocker/scheduler/request_state.h"
#include "plugin/mocker/scheduler/token_count.h"
#include "plugin/mocker/scheduler/waiting_queue.h"
#include "plugin/mocker/speculative/accept_stream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Pure: no clock, no thread, no log. A pass computes all its effects at once; the caller shows
/// events when the pass starts and outputs when its modelled time is over. Between passes requests
/// may be submitted and cancelled. Not thread safe. An idle scheduler that never had a request owns
/// no memory beyond itself. Source: dynamo-mocker 1.3.0 scheduler/vllm/core.rs; golden vectors
/// pass_vllm_*.json and replay_synth_vllm_*.json.
class Scheduler final : public RankScheduler {
 public:
  Scheduler(const SchedulerConfig& config, RankIndex rank);

  void Submit(engine::Request request) override;
  bool Cancel(RequestId id, CommandOutput& output) override;
  [[nodiscard]] bool HasWork() const override {
    return running_count_ > 0 || !waiting_.empty() || (host_ && host_->awake > 0);
  }
  void ComputePass(const PassStart& start, PassOutput& output) override;
  void SettlePass(const SharedPass& pass) override;
  std::optional<std::uint64_t> ClearCache(engine::InUse in_use, CommandOutput& output) override;
  void EndPass(Nanoseconds at, CommandOutput& output) override;
  [[nodiscard]] std::optional<Nanoseconds> NextTransfer() const override;
  void CompleteTransfers(Nanoseconds at, CommandOutput& output) override;
  [[nodiscard]] engine::Load load() const override;
  [[nodiscard]] BlockCounts blocks() const override {
    return {pool_->active(), pool_->cached(), pool_->free(), pool_->total()};
  }
  [[nodiscard]] std::uint64_t event_count() const override { return pool_->event_count(); }
  [[nodiscard]] std::uint32_t unadmitted() const override { return unadmitted_; }
  [[nodiscard]] std::vector<BlockHash> KnownBlocks(StorageTier tier) const override;
  [[nodiscard]] std::string CheckConsistency() const override;
  void SubmitSource(engine::Request request) override;
  bool ReleaseSource(RequestId id, CommandOutput& output) override;
  [[nodiscard]] Status ReserveDestination(engine::Request request,
                                          bool in_pass,
                                          CommandOutput& output) override;
  void RetryDestination(CommandOutput& output) override;
  bool ActivateDestination(RequestId id, CommandOutput& output) override;
  bool CancelDestination(RequestId id, CommandOutput& output) override;
  static constexpr const char* kOutgrewPool =
      "Completion signal received before max tokens reached: the request alone exceeds the KV pool";
  [[nodiscard]] const KvPool& pool() const { return *pool_; }

 private:
  using State = RequestState::Status;
  enum class Scheduled : std::uint8_t { kYes, kBlocked, kGone };
  /// Leading prompt tokens that are there already, in all, and in blocks that others hold.
  struct PrefixCost {
    std::uint64_t cached = 0;
    std::uint64_t active = 0;
  };

  // queues.cc
  std::uint32_t NewEntry();
  std::uint32_t NewRequest(engine::Request request);
  void Enqueue(std::uint32_t index);
  [[nodiscard]] std::uint32_t IndexOf(RequestId id) const;
  void EnterRunning(std::uint32_t index);
  void ReleaseBlocks(RequestState& request);
  void Retire(std::uint32_t index);
  void LeaveWaiting(std::uint32_t index);
  [[nodiscard]] std::uint32_t WaitingCount() const;
  void LeaveQueue(std::uint32_t index);
  std::uint32_t PreemptOne();
  void UndoPart(RequestState& victim);
  void EndWithout(std::uint32_t index, engine::OutputKind kind, std::string message);
  void CompactRunning();

  // admission.cc
  [[nodiscard]] bool DefersPrompts(const PassStart& start) const;
  void ScheduleRunning();
  void AdmitWaiting();
  [[nodiscard]] std::uint32_t NextCandidate() const;
  [[nodiscard]] std::uint32_t FirstPrebuilt() const;
  [[nodiscard]] static bool IsPrebuilt(const RequestState& request);
  [[nodiscard]] bool Rejects(const RequestState& request) const;
  [[nodiscard]] PoolView ViewOfPool() const;
  [[nodiscard]] bool Fits(const RequestState& request, const PrefixCost& cost) const;
  [[nodiscard]] PrefixCost CostOf(const RequestState& request) const;
  [[nodiscard]] bool RecomputesLast(const RequestState& request) const;
  [[nodiscard]] std::uint64_t ReusableMax(const RequestState& request) const;
  [[nodiscard]] Candidate CandidateOf(const RequestState& request, const PrefixCost& cost) const;
  Scheduled SchedulePart(std::uint32_t index, const PrefixCost* cost);
  enum class Allocated : std::uint8_t { kYes, kNoBlocks, kGone };
  Allocated Allocate(std::uint32_t index, std::uint64_t target, std::uint64_t reused);
  void FinishPart(RequestState& request, std::uint64_t before, std::uint64_t done);

  // host_offload.cc; host_ is there
  enum class HostAnswer : std::uint8_t { kNothing, kAside, kNoRoom };
  [[nodiscard]] std::span<const LogicalBlock> PromptBlocks(const RequestState& request) const;
  void SetAside(std::uint32_t index);
  void WakeAside();
  [[nodiscard]] std::uint32_t FirstAwake() const;
  HostAnswer AskHost(std::uint32_t index, PrefixCost& cost);
  HostAnswer StartLoad(std::uint32_t index,
                       const PrefixCost& cost,
                       std::size_t base,
                       std::size_t end);
  [[nodiscard]] std::uint64_t PromisedBlocks() const;
  std::uint32_t AdmittedFromHost(std::uint32_t index, std::uint64_t reused);
  void PrepareStores();
  /// Not `needed`: a clear has said it all.
  void TellHostChanges(CommandOutput& output, bool needed = true);
  void CollectFence();
  void FlushStore(std::uint32_t index);
  void ForgetHost(std::uint32_t index);
  [[nodiscard]] bool HostHoldsBlocks() const;
  bool ReleaseLastLoad();
  void FinishTransfers(Nanoseconds at, bool pass_over, CommandOutput& output);

  // handoff.cc
  void HoldSource(std::uint32_t index);
  [[nodiscard]] Status CheckDestination(const engine::Request& request) const;
  [[nodiscard]] bool MakeRoom(RequestState& request, CommandOutput& output);

  // decode.cc
  void Decode();
  void CollectReady();
  bool EmitToken(std::uint32_t index);
  bool OpenBlockFor(std::uint32_t index);
  [[nodiscard]] bool OutgrewPool() const;
  void Emit(RequestState& request, std::uint32_t index);
  void EndOutputless();
  [[nodiscard]] bool IsCharged(const RequestState& request) const;
  [[nodiscard]] DecodeBatch BatchOfReady() const;
  void AddDecodeTime(const DecodeBatch& batch);

  // speculative.cc
  void DecodeSpeculative();
  bool ReserveGrowth();
  void EmitBurst(std::uint32_t index);
  [[nodiscard]] std::uint64_t BurstMax(const RequestState& request) const;

  // scheduler.cc, stats.cc
  void FailDeadEnd();
  void FinishStats();

  const SchedulerConfig& config_;
  const RankIndex rank_;
  const std::uint64_t rank_seed_;
  const std::unique_ptr<KvPool> pool_;
  const std::unique_ptr<HostOffload> host_;  ///< null: no host tier
  std::vector<RequestState> requests_;
  std::vector<std::uint32_t> unused_;  ///< entries of requests_
  std::vector<std::uint32_t>
      retired_;  ///< over while running_ names them: unused after CompactRunning
  IndexTable by_id_;
  WaitingQueue waiting_;
  WaitingQueue pending_;            ///< destinations
  std::uint32_t prebuilt_ = 0;      ///< destinations in waiting_ whose prompt has come
  std::uint32_t reserved_ = 0;      ///< destinations that have room
  std::uint32_t held_sources_ = 0;  ///< that have their last token
  std::uint64_t capacity_changes_ = 1;
  std::optional<AcceptStream> accepts_;
  std::vector<std::uint32_t>
      running_;                ///< in order of admission; entries that are gone are skipped
  bool left_running_ = false;  ///< running_ names some that no longer run
  std::uint32_t running_count_ = 0;
  std::uint32_t unadmitted_ = 0;
  std::uint32_t outputless_ = 0;  ///< requests that ask for no output
  std::uint64_t arrivals_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t fruitless_preemptions_ = 0;  ///< since the latest token
  bool stalled_ = false;                     ///< too many of them
  TokenCount token_count_;
  std::uint64_t passes_ = 0;
  bool left_waiting_ = false;  ///< the latest pass that could admit everybody did not

  // Of the running pass.
  PassOutput* output_ = nullptr;
  std::uint64_t budget_ = 0;
  PrefillBatch prefill_batch_;
  bool preempted_any_ = false;
  bool defers_prompts_ = false;
  Nanoseconds pass_start_{0};
  std::uint64_t part_used_ = 0;  ///< tokens of the part scheduled last
  std::vector<std::uint32_t> ready_;
  std::vector<engine::Output> endings_;  ///< without a token, reported after the tokens
};

}  // namespace understudy::mocker
