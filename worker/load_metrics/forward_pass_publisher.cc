#include "worker/load_metrics/forward_pass_publisher.h"

#include "worker/log/log.h"

#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.load_metrics";

transport::ForwardPassMetrics::Lengths LengthsOf(const engine::LengthStats& stats) {
  return {stats.count, stats.sum, stats.variance};
}

transport::ForwardPassMetrics MetricsOf(const engine::ForwardPass& pass) {
  transport::ForwardPassMetrics metrics;
  metrics.wall_time_s = std::chrono::duration<double>(pass.duration).count();
  metrics.prefill = LengthsOf(pass.prefill);
  metrics.prefill_tokens = pass.prefill_tokens;
  metrics.prefill_kv_tokens = pass.prefill_kv_tokens;
  metrics.decode = LengthsOf(pass.decode);
  metrics.queued_prefill = LengthsOf(pass.queued_prefill);
  metrics.queued_decode = LengthsOf(pass.queued_decode);
  return metrics;
}

}  // namespace

ForwardPassPublisher::ForwardPassPublisher(transport::Loop& loop,
                                           std::vector<transport::EventPublisher*> publishers,
                                           const Clock& clock,
                                           Metrics& metrics)
    : publishers_(std::move(publishers)),
      clock_(clock),
      metrics_(metrics),
      timer_(loop.NewTimer()) {}

void ForwardPassPublisher::AddRank(std::uint64_t worker_id, std::uint32_t dp_rank) {
  Rank rank;
  rank.worker_id = std::to_string(worker_id);
  rank.dp_rank = dp_rank;
  ranks_.push_back(std::move(rank));
}

void ForwardPassPublisher::Start() {
  running_ = true;
  const TimePoint now = clock_.Now();
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Spoke(rank, now);
  }
  ArmIdle(now);
}

/// Moves the rank to the end of the list.
void ForwardPassPublisher::Spoke(std::uint32_t rank, TimePoint now) {
  Rank& entry = ranks_[rank];
  entry.spoke = now;
  if (last_ == rank) {
    return;
  }
  if (first_ == rank) {
    first_ = entry.after;
  }
  if (entry.before != kNone) {
    ranks_[entry.before].after = entry.after;
  }
  if (entry.after != kNone) {
    ranks_[entry.after].before = entry.before;
  }
  entry.before = std::exchange(last_, rank);
  entry.after = kNone;
  if (entry.before != kNone) {
    ranks_[entry.before].after = rank;
  }
  if (first_ == kNone) {
    first_ = rank;
  }
}

void ForwardPassPublisher::OnPasses(const std::vector<engine::ForwardPass>& passes) {
  if (passes.empty() || !running_) {
    return;
  }
  const TimePoint now = clock_.Now();
  for (const auto& pass : passes) {
    if (Value(pass.rank) < ranks_.size()) {
      Publish(Value(pass.rank), MetricsOf(pass), now);
    }
  }
}

void ForwardPassPublisher::Publish(std::uint32_t rank,
                                   transport::ForwardPassMetrics metrics,
                                   TimePoint now) {
  Rank& entry = ranks_[rank];
  metrics.worker_id = entry.worker_id;
  metrics.dp_rank = entry.dp_rank;
  metrics.counter_id = ++entry.counter;
  Spoke(rank, now);
  transport::EncodeForwardPass(payload_, metrics);
  for (auto* publisher : publishers_) {
    const auto sent = publisher->Publish(payload_);
    metrics_.ForwardPassPublished(sent.has_value());
    if (sent) {
      failing_ = false;
    } else if (!std::exchange(failing_, true)) {
      Log(LogLevel::kWarn,
          kTarget,
          "forward-pass metrics are not sent",
          {{"error", sent.error().message}});
    }
  }
}

void ForwardPassPublisher::ArmIdle(TimePoint now) {
  if (first_ != kNone) {
    timer_->After(ranks_[first_].spoke + kIdle - now, [this] { SayIdle(); });
  }
}

void ForwardPassPublisher::SayIdle() {
  const TimePoint now = clock_.Now();
  while (now - ranks_[first_].spoke >= kIdle) {
    Publish(first_, {}, now);
  }
  ArmIdle(now);
}

void ForwardPassPublisher::Stop() {
  running_ = false;
  timer_->Cancel();
}

}  // namespace understudy::worker
