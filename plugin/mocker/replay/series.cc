#include "plugin/mocker/replay/series.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kMsPerS = 1e3;

std::optional<double> PercentileMs(const LogHistogram& values, std::uint64_t percent) {
  if (values.total() == 0) {
    return std::nullopt;
  }
  return values.ValueAt(((values.total() - 1) * percent + 50) / 100) / kNsPerMs;
}

}  // namespace

void SeriesBuilder::Bucket::Merge(const Bucket& other) {
  ttft.Merge(other.ttft);
  itl.Merge(other.itl);
  waiting_ms += other.waiting_ms;
  running_ms += other.running_ms;
  worker_ms += other.worker_ms;
  used_ms += other.used_ms;
  arrivals += other.arrivals;
  completed += other.completed;
  output_tokens += other.output_tokens;
  input_tokens += other.input_tokens;
  cached_tokens += other.cached_tokens;
  waiting_max = std::max(waiting_max, other.waiting_max);
}

SeriesBuilder::Bucket& SeriesBuilder::At(double at_ms) {
  while (at_ms >= bucket_ms_ * kReplayBucketsMax) {
    Halve();
  }
  const auto index = static_cast<std::size_t>(at_ms / bucket_ms_);
  if (index >= buckets_.size()) {
    buckets_.resize(index + 1);
  }
  return buckets_[index];
}

void SeriesBuilder::Halve() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (i % 2 == 1) {
      buckets_[i / 2].Merge(buckets_[i]);
    } else if (i > 0) {
      buckets_[i / 2] = std::move(buckets_[i]);
    }
  }
  buckets_.resize((buckets_.size() + 1) / 2);
  bucket_ms_ *= 2;
}

void SeriesBuilder::AddAdmission(double at_ms,
                                 std::uint64_t prompt_tokens,
                                 std::uint64_t cached_tokens) {
  Bucket& bucket = At(at_ms);
  bucket.input_tokens += prompt_tokens;
  bucket.cached_tokens += cached_tokens;
}

void SeriesBuilder::AddLoad(const SpanLoad& load) {
  At(load.end_ms);  // from here on the buckets stay as long as they are
  for (double from = load.start_ms; from < load.end_ms;) {
    Bucket& bucket = At(from);
    const double border =
        (static_cast<double>(static_cast<std::size_t>(from / bucket_ms_)) + 1.0) * bucket_ms_;
    const double to = std::min(load.end_ms, border);
    const double span = to - from;
    bucket.waiting_ms += static_cast<double>(load.waiting) * span;
    bucket.running_ms += static_cast<double>(load.running) * span;
    if (load.blocks_used_ratio) {
      bucket.worker_ms += span;
      bucket.used_ms += *load.blocks_used_ratio * span;
    }
    bucket.waiting_max = std::max(bucket.waiting_max, load.waiting);
    from = to;
  }
}

ReplayBucket SeriesBuilder::Describe(const Bucket& bucket, double start_ms, double end_ms) const {
  ReplayBucket out;
  const double span = std::max(end_ms - start_ms, 1e-6);
  const double per_s = kMsPerS / span;
  out.start_ms = start_ms;
  out.ttft_p50_ms = PercentileMs(bucket.ttft, 50);
  out.ttft_p99_ms = PercentileMs(bucket.ttft, 99);
  out.itl_p50_ms = PercentileMs(bucket.itl, 50);
  out.itl_p99_ms = PercentileMs(bucket.itl, 99);
  out.waiting_mean = bucket.waiting_ms / span;
  out.running_mean = bucket.running_ms / span;
  out.waiting_max = bucket.waiting_max;
  if (bucket.input_tokens > 0) {
    out.cache_hit_ratio =
        static_cast<double>(bucket.cached_tokens) / static_cast<double>(bucket.input_tokens);
  }
  out.blocks_used_ratio = bucket.worker_ms > 0.0 ? bucket.used_ms / bucket.worker_ms : 0.0;
  out.arrivals_rps = static_cast<double>(bucket.arrivals) * per_s;
  out.completed_rps = static_cast<double>(bucket.completed) * per_s;
  out.output_tok_s = static_cast<double>(bucket.output_tokens) * per_s;
  out.input_tok_s = static_cast<double>(bucket.input_tokens) * per_s;
  return out;
}

ReplaySeries SeriesBuilder::Build(double end_ms) const {
  ReplaySeries series;
  series.bucket_ms = bucket_ms_;
  series.buckets.reserve(buckets_.size());
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const double start = static_cast<double>(i) * bucket_ms_;
    const double end = start + bucket_ms_;
    const bool last = i + 1 == buckets_.size();
    series.buckets.push_back(
        Describe(buckets_[i], start, last && end_ms > start ? std::min(end, end_ms) : end));
  }
  return series;
}

}  // namespace understudy::mocker
