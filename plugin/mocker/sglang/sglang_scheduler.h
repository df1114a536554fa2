// One rank of a simulated SGLang engine: batches of whole prompts (or chunks of them) over a radix
// cache, in virtual time. What the engines of all releases have in common.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"
#include "plugin/mocker/scheduler/rank_scheduler.h"
#include "plugin/mocker/scheduler/token_count.h"
#include "plugin/mocker/sglang/queue_policy.h"
#include "plugin/mocker/sglang/radix_cache.h"
#include "plugin/mocker/sglang/request_queue.h"
#include "plugin/mocker/sglang/sglang_request.h"
#include "plugin/mocker/speculative/accept_stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Pure: no clock, no thread, no log. A pass computes all its effects at once; events and outputs
/// are to be shown when its modelled time is over. Between passes requests may be submitted and
/// cancelled. Not thread safe. An idle scheduler that never had a request owns next to no memory.
/// The derived classes say what a pass consists of and what a request holds of the pool.
class SglangScheduler : public RankScheduler {
 public:
  void Submit(engine::Request request) override;
  bool Cancel(RequestId id, CommandOutput& output) override;
  [[nodiscard]] bool HasWork() const override;
  void ComputePass(const PassStart& start, PassOutput& output) override;
  void SettlePass(const SharedPass& pass) override;
  std::optional<std::uint64_t> ClearCache(engine::InUse in_use, CommandOutput& output) override;
  /// `blocks_active` as in the original: whatever is not free, cached pages included, and the rest
  /// of every page in use. It may exceed the total, because free tokens of several pages in use can
  /// make up the next page until something is evicted for it.
  [[nodiscard]] engine::Load load() const override;
  /// In pages. Cached: whole pages that may be evicted. Used: tokens that requests hold (under a
  /// lock in the tree, of their own, or set aside), rounded up together. Free: free tokens, rounded
  /// down.
  [[nodiscard]] BlockCounts blocks() const override;
  [[nodiscard]] std::uint64_t event_count() const override { return cache_.event_count(); }
  [[nodiscard]] std::uint32_t unadmitted() const override { return unadmitted_; }
  [[nodiscard]] std::vector<BlockHash> KnownBlocks(StorageTier tier) const override {
    return tier == StorageTier::kDevice ? cache_.KnownBlocks() : std::vector<BlockHash>{};
  }
  [[nodiscard]] std::string CheckConsistency() const override;
  void SubmitSource(engine::Request request) override;
  bool ReleaseSource(RequestId id, CommandOutput& output) override;
  [[nodiscard]] Status ReserveDestination(engine::Request request,
                                          bool in_pass,
                                          CommandOutput& output) override;
  void RetryDestination(CommandOutput& output) override;
  bool ActivateDestination(RequestId id, CommandOutput& output) override;
  bool CancelDestination(RequestId id, CommandOutput& output) override;
  [[nodiscard]] const RadixCache& cache() const { return cache_; }

 protected:
  using State = SglangRequest::Status;
  using EventLog = RadixCache::EventLog;
  static constexpr double kRatioPasses = 600.0;  ///< from the first to the last ratio
  /// Tokens that may still be charged in the running pass.
  struct Budget {
    double pool = 0.0;  ///< of the cache, after what running requests will probably need
    std::uint64_t input = 0;
    std::uint64_t chunk = 0;
  };
  /// What the next step of the running requests takes in the worst case, in tokens.
  struct Demand {
    std::uint64_t tokens = 0;  ///< of the pool
    std::uint64_t growth = 0;  ///< in pages that must be opened, rounded up for each request
  };
  /// A part of a prompt that is computed in the running pass.
  struct Part {
    std::uint32_t index = kNoIndex;
    std::uint64_t tokens = 0;
    std::uint64_t reused = 0;  ///< tokens before it
    std::uint64_t hit = 0;     ///< of these, what counts as found in the cache
    bool admission = true;     ///< counts as one
  };

  /// `paged`: the pool is taken and returned in whole pages, else in tokens.
  SglangScheduler(const SchedulerConfig& config, RankIndex rank, bool paged);

  /// The pass up to the end of finished requests.
  virtual void Compute() = 0;
  /// Those in retracted_ go back to the queue, and output_ratio_ follows.
  virtual void Requeue() = 0;
  /// Some of those that ran are in retracted_ now; the others are about to get their tokens.
  virtual void OnRetracted() {}
  /// Tokens at the beginning of a waiting request that cost nothing because they are cached.
  [[nodiscard]] virtual std::uint64_t Reusable(SglangRequest& request) const = 0;
  /// Of `missing` tokens, how many are computed now. None: the request is not admitted.
  [[nodiscard]] virtual std::optional<std::uint64_t> Chunk(std::uint64_t missing,
                                                           const Budget& budget) const = 0;
  /// Gives the tokens of `part` their KV entries and completes it. False: no room.
  virtual bool Materialize(SglangRequest& request, Part& part) = 0;

  // queues.cc
  std::uint32_t NewRequest(engine::Request request);
  [[nodiscard]] std::uint32_t IndexOf(RequestId id) const;
  void CountAdmission(std::uint32_t index, std::uint64_t reused);
  void EnterRunning(std::uint32_t index);
  void LeaveState(std::uint32_t index);
  void Retire(std::uint32_t index);
  void EndWithout(std::uint32_t index, engine::OutputKind kind, std::string message);
  void CompactRunning();
  [[nodiscard]] std::uint64_t RoundUp(std::uint64_t tokens) const;
  /// Of the pool, by a request with KV entries for `tokens`.
  [[nodiscard]] std::uint64_t HeldTokens(std::uint64_t tokens) const;
  /// Tokens in its last page that the pool counts as free.
  [[nodiscard]] std::uint64_t Slack(std::uint64_t tokens) const {
    return RoundUp(tokens) - HeldTokens(tokens);
  }

  // admission.cc
  void PromotePrebuilt();
  void BeginAdmission();
  void Admit();
  [[nodiscard]] Budget NewBudget() const;
  [[nodiscard]] bool NeverFits(const SglangRequest& request, std::uint64_t cached) const;
  bool AdmitPart(std::uint32_t index, Budget& budget);
  [[nodiscard]] bool HasRoom(const SglangRequest& request,
                             std::uint64_t charge,
                             std::uint64_t reserve,
                             const Budget& budget) const;
  void SortIn();

  // decode.cc
  void Decode();
  [[nodiscard]] std::uint64_t BurstMax(const SglangRequest& request) const;
  [[nodiscard]] Demand DemandOf(const SglangRequest& request) const;
  [[nodiscard]] bool Meets(const Demand& demand) const;
  /// Tokens of one step for which `reserved` ones of the pool are enough, when only it runs.
  [[nodiscard]] std::uint64_t StepMax(std::uint32_t index, std::uint64_t reserved) const;
  void RetractUntilMet(Demand& demand);
  /// None: no step.
  [[nodiscard]] std::optional<std::uint64_t> ReserveTokens(const Demand& demand);
  void AddDecodeTime();
  std::uint64_t EmitBurst(std::uint32_t index, std::uint64_t most);
  void EmitToken(std::uint32_t index);
  void Emit(SglangRequest& request);
  void FinishRequests();

  // pages.cc
  void PublishPages(SglangRequest& request, std::size_t complete, EventLog& log);
  void CacheAndRelease(SglangRequest& request, EventLog& log);
  void Release(SglangRequest& request, EventLog& log);

  // dead_ends.cc
  [[nodiscard]] bool OthersHold() const;
  bool ReclaimOne(std::uint32_t keep);
  void ResolveDeadEnd();

  // stats.cc
  void NoteDecodeLengths();
  void FinishStats();

  // check.cc
  [[nodiscard]] std::string CheckRequest(const SglangRequest& request) const;
  [[nodiscard]] std::string CheckQueues() const;
  [[nodiscard]] std::string CheckTokens() const;

  const SchedulerConfig& config_;
  const RankIndex rank_;
  const std::uint64_t rank_seed_;
  const std::uint64_t page_size_;
  const std::uint64_t grain_;  ///< the pool is taken and returned in such pieces, tokens
  RadixCache cache_;
  std::unique_ptr<QueuePolicy> policy_;
  std::optional<AcceptStream> accepts_;
  RequestQueue::Requests requests_;
  std::vector<std::uint32_t> unused_;   ///< entries of requests_
  std::vector<std::uint32_t> retired_;  ///< over while running_ may name them
  IndexTable by_id_;
  RequestQueue waiting_;
  RequestQueue prebuilt_;
  RequestQueue pending_;                ///< destinations
  std::vector<std::uint32_t> running_;  ///< in order of admission
  bool left_running_ = false;           ///< running_ names requests that don't run
  std::uint32_t running_count_ = 0;
  std::uint32_t reserved_ = 0;  ///< destinations
  std::uint32_t held_ = 0;      ///< sources
  std::uint32_t unadmitted_ = 0;
  std::uint64_t running_slack_ = 0;   ///< tokens that fit into the last pages of running requests
  std::uint64_t prebuilt_slack_ = 0;  ///< and of prebuilt ones
  const double first_ratio_;
  const double last_ratio_;
  /// Share of their remaining output for which room is kept for running requests: falls from pass
  /// to pass, until one has to be retracted.
  double output_ratio_;
  std::uint64_t capacity_changes_ = 1;  ///< times that something was freed
  std::uint64_t arrivals_ = 0;
  std::uint64_t passes_ = 0;
  std::uint64_t cache_hit_tokens_ = 0;    ///< of the latest pass
  std::uint64_t cache_total_tokens_ = 0;  ///< and those computed in it
  TokenCount token_count_;

  // Of the running pass.
  PassOutput* output_ = nullptr;
  std::vector<Part> parts_;
  std::vector<std::uint32_t> finished_;
  std::vector<std::uint32_t> retracted_;
  std::vector<engine::Output> endings_;  ///< without a token, reported after the tokens
};

}  // namespace understudy::mocker
