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
constexpr double kRatioPasses = 600.0;

double FirstRatio(const SchedulerConfig& config) {
  return kFirstRatio * config.sglang.schedule_conservativeness;
}

}  // namespace

SglangScheduler::SglangScheduler(const SchedulerConfig& config, RankIndex rank)
    : config_(config),
      rank_(rank),
      rank_seed_(OutputTokens::Mix(config.seed ^ (std::uint64_t{Value(rank)} << 32U))),
      page_size_(config.block_size),
      cache_({.pages_total = config.blocks_total,
              .page_size = config.block_size,
              .events = config.kv_events && config.prefix_caching,
              .rank = rank}),
      policy_(NewQueuePolicy(config.sglang.schedule_policy, config.block_size)),
      output_ratio_(FirstRatio(config)) {
  UNDERSTUDY_ASSERT(config.perf_model != nullptr && config.block_size >= 1);
  if (config.speculative) {
    accepts_.emplace(config.speculative->accept_rates, config.speculative->SeedOf(Value(rank)));
  }
}

bool SglangScheduler::HasWork() const {
  return running_count_ > 0 || !waiting_.empty() || !prebuilt_.empty() || !late_events_.empty();
}

void SglangScheduler::RunPass(PassOutput& output) {
  output.Clear();
  output.events_at_end = true;
  output_ = &output;
  std::swap(output.events, late_events_);
  CompactRunning();  // of requests cancelled since the last pass
  ++passes_;
  token_count_.BeginPass();

  PromotePrebuilt();
  policy_->Order(waiting_, requests_, cache_);
  Admit();
  SortIn();
  Decode();
  FinishRequests();
  ResolveDeadEnd();
  token_count_.EndPass(output.duration());

  output.outputs.insert(output.outputs.end(), endings_.begin(), endings_.end());
  endings_.clear();
  output.progressed = output.progressed || !output.events.empty();
  CompactRunning();
  if (config_.collect_stats) {
    FinishStats();
  }
  output_ = nullptr;
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
  const double first = FirstRatio(config_);
  const double last = first * kLastRatioShare;
  if (!retracted_.empty()) {
    for (auto index = retracted_.rbegin(); index != retracted_.rend(); ++index) {
      waiting_.PushFront(requests_, *index);
    }
    retracted_.clear();
    output_ratio_ = first;
  }
  output_ratio_ = std::max(last, output_ratio_ - (first - last) / kRatioPasses);
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
