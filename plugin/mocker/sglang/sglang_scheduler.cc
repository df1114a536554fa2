#include "plugin/mocker/sglang/sglang_scheduler.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <iterator>

namespace understudy::mocker {

namespace {

// How much of the output of running requests admission keeps room for. Source: dynamo-mocker 1.3.0
// scheduler/sglang/config.rs.
constexpr double kFirstRatio = 0.7;
constexpr double kLastRatioShare = 0.14;

}  // namespace

SglangScheduler::SglangScheduler(const SchedulerConfig& config, RankIndex rank, bool paged)
    : config_(config),
      rank_(rank),
      rank_seed_(OutputTokens::Mix(config.seed ^ (std::uint64_t{Value(rank)} << 32U))),
      page_size_(config.block_size),
      grain_(paged ? config.block_size : 1),
      cache_({.pages_total = config.blocks_total,
              .page_size = config.block_size,
              .events = config.kv_events && config.prefix_caching,
              .paged = paged,
              .matches = config.prefix_caching || !paged,
              .rank = rank}),
      policy_(NewQueuePolicy(config.sglang.schedule_policy, config.block_size)),
      first_ratio_(kFirstRatio * config.sglang.schedule_conservativeness),
      last_ratio_(first_ratio_ * kLastRatioShare),
      output_ratio_(first_ratio_) {
  UNDERSTUDY_ASSERT(config.perf_model != nullptr && config.block_size >= 1);
  if (config.speculative) {
    accepts_.emplace(config.speculative->accept_rates,
                     config.speculative->SeedOf(Value(rank), config.ranks_per_worker));
  }
}

bool SglangScheduler::HasWork() const {
  return running_count_ > 0 || !waiting_.empty() || !prebuilt_.empty();
}

std::optional<std::uint64_t> SglangScheduler::ClearCache(engine::InUse in_use,
                                                         CommandOutput& output) {
  const bool requests = load().requests_running + load().requests_waiting + held_ > 0;
  if (in_use == engine::InUse::kRefuse && requests) {
    return std::nullopt;
  }
  return cache_.ClearCached(output.events);
}

void SglangScheduler::ComputePass(const PassStart& /*start*/, PassOutput& output) {
  output.Clear();
  output.events_at_end = true;
  output_ = &output;
  CompactRunning();  // of requests cancelled since the last pass
  ++passes_;
  token_count_.BeginPass();

  Compute();
  FinishRequests();
  Requeue();
  ResolveDeadEnd();

  output.outputs.insert(output.outputs.end(), endings_.begin(), endings_.end());
  endings_.clear();
  output.progressed = output.progressed || !output.events.empty();
  CompactRunning();
  if (config_.collect_stats) {
    FinishStats();
  }
  output_ = nullptr;
}

void SglangScheduler::SettlePass(const SharedPass& pass) {
  token_count_.EndPass(pass.duration);
}

void SglangScheduler::FinishRequests() {
  for (const std::uint32_t index : finished_) {
    SglangRequest& request = requests_[index];
    if (request.source) {
      LeaveState(index);
      request.status = State::kHeld;
      ++held_;
      output_->notices.push_back(
          {request.id, HandoffNotice::Kind::kSourceHeld, request.prompt_length});
      continue;
    }
    CacheAndRelease(request, output_->events);
    Retire(index);
  }
  finished_.clear();
}

engine::Load SglangScheduler::load() const {
  const std::uint64_t used = cache_.total_tokens() - cache_.free_tokens();
  return {.rank = rank_,
          .blocks_active = RoundUp(used + running_slack_ + prebuilt_slack_) / page_size_,
          .blocks_total = config_.blocks_total,
          .requests_running = running_count_,
          .requests_waiting = waiting_.size() + prebuilt_.size() + pending_.size() + reserved_,
          .preemptions_total = 0,  // the original does not count retractions
          .passes_total = passes_,
          .cache_hit_tokens = cache_hit_tokens_,
          .cache_total_tokens = cache_total_tokens_,
          .token_gaps_total = token_count_.gaps_total(),
          .token_gap_ns_total = token_count_.gap_ns_total()};
}

BlockCounts SglangScheduler::blocks() const {
  const std::uint64_t cached = cache_.evictable_tokens() / page_size_;
  const std::uint64_t free = cache_.free_tokens() / page_size_;
  return {config_.blocks_total - cached - free, cached, free, config_.blocks_total};
}

}  // namespace understudy::mocker
