#include "worker/metrics/native_metrics.h"

#include "worker/log/log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace understudy::worker {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

constexpr std::string_view kTarget = "worker.metrics";

struct Times {
  Buckets first, next, whole;
  const char* whole_help;
};

const Times& VllmTimes() {
  static const Times times{
      {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
       1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560},
      {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
      {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
      "Histogram of e2e request latency in seconds."};
  return times;
}

const Times& SglangTimes() {
  static const Times times{
      {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400},
      {.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06,
       .08,  .1,   .2,   .4,   .6,  .8,   1,   2,    4,   6,    8},
      {.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400},
      "Histogram of End-to-end request latency in seconds"};
  return times;
}

/// The three histograms of one label set.
struct TimeSeries {
  Histogram *first = nullptr, *next = nullptr, *whole = nullptr;

  TimeSeries() = default;
  TimeSeries(prometheus::Registry& registry,
             const std::string& prefix,
             const Labels& labels,
             const Times& times)
      : first(Add(registry,
                  prefix + "time_to_first_token_seconds",
                  "Histogram of time to first token in seconds.",
                  labels,
                  times.first)),
        next(Add(registry,
                 prefix + "inter_token_latency_seconds",
                 "Histogram of inter-token latency in seconds.",
                 labels,
                 times.next)),
        whole(Add(registry,
                  prefix + "e2e_request_latency_seconds",
                  times.whole_help,
                  labels,
                  times.whole)) {}

  static Histogram* Add(prometheus::Registry& registry,
                        const std::string& name,
                        const std::string& help,
                        const Labels& labels,
                        const Buckets& buckets) {
    return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                      buckets);
  }
};

Gauge* AddGauge(prometheus::Registry& registry,
                const std::string& name,
                const std::string& help,
                const Labels& labels) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

Counter* AddCounter(prometheus::Registry& registry,
                    const std::string& name,
                    const std::string& help,
                    const Labels& labels) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}

/// What both families have in common: the binding, and the loads until then.
class BoundMetrics : public NativeMetrics {
 public:
  explicit BoundMetrics(const Options& options) : options_(options), loads_(options.rank_count) {}

  bool Bind(std::string_view model) final {
    constexpr std::string_view kSpace = " \t\r\n";
    const auto begin = model.find_first_not_of(kSpace);
    if (options_.prefill || begin == std::string_view::npos) {
      return false;
    }
    model = model.substr(begin, model.find_last_not_of(kSpace) - begin + 1);
    if (model_.empty()) {
      model_ = model;
      Create(registry_, model_);
    } else if (model != model_ && !std::exchange(other_said_, true)) {
      Log(LogLevel::kWarn,
          kTarget,
          "requests name another model, native metrics keep the first",
          {{"first", model_}, {"other", std::string(model.substr(0, 200))}});
    }
    return true;
  }

  void OnLoad(const engine::Load& load) final {
    if (Value(load.rank) < loads_.size()) {
      auto& last = loads_[Value(load.rank)];
      Changed(last, load);
      last = load;
    }
  }

  std::string Scrape() final {
    if (model_.empty()) {
      return {};
    }
    Refresh();
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 protected:
  virtual void Create(prometheus::Registry& registry, const std::string& model) = 0;
  virtual void Changed(const engine::Load& /*before*/, const engine::Load& /*now*/) {}
  /// Gauges from loads().
  virtual void Refresh() = 0;
  [[nodiscard]] const std::vector<engine::Load>& loads() const { return loads_; }
  [[nodiscard]] std::uint32_t DpRank(std::size_t rank) const {
    return static_cast<std::uint32_t>(rank % options_.dp_size);
  }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  Options options_;
  prometheus::Registry registry_;
  std::string model_;
  std::vector<engine::Load> loads_;
  bool other_said_ = false;
};

/// vLLM, and TensorRT-LLM with the same set: series per rank.
class VllmMetrics final : public BoundMetrics {
 public:
  explicit VllmMetrics(const Options& options)
      : BoundMetrics(options), preemptions_seen_(options.rank_count, 0) {}

  void FirstToken(RankIndex rank, double seconds) override {
    Of(rank).times.first->Observe(seconds);
  }
  void NextTokens(RankIndex rank, std::uint32_t count, double gap) override {
    for (std::uint32_t i = 0; i < count; ++i) {
      Of(rank).times.next->Observe(gap);
    }
  }
  void Completed(RankIndex rank, double seconds) override {
    Of(rank).times.whole->Observe(seconds);
  }

 protected:
  void Create(prometheus::Registry& registry, const std::string& model) override {
    const bool trtllm = options().engine == mocker::EngineType::kTrtllm;
    const std::string prefix = trtllm ? "trtllm:" : "vllm:";
    for (std::uint32_t rank = 0; rank < options().dp_size; ++rank) {
      const Labels labels = {{"model_name", model}, {"engine", std::to_string(rank)}};
      Series series;
      series.running = AddGauge(registry,
                                prefix + "num_requests_running",
                                "Number of requests currently running on GPU.",
                                labels);
      series.waiting = AddGauge(registry,
                                prefix + "num_requests_waiting",
                                "Number of requests waiting to be processed.",
                                labels);
      series.usage = AddGauge(registry,
                              prefix + "kv_cache_usage_perc",
                              "KV-cache usage as a fraction of available cache blocks.",
                              labels);
      series.gpu_usage = AddGauge(registry,
                                  prefix + "gpu_cache_usage_perc",
                                  "Compatibility alias for KV-cache usage as a fraction of "
                                  "available cache blocks.",
                                  labels);
      series.preemptions = AddCounter(
          registry,
          prefix + "num_preemptions_total",
          trtllm ? "Cumulative number of request preemptions (always 0 under GUARANTEED_NO_EVICT)."
                 : "Cumulative number of request preemptions.",
          labels);
      series.times = TimeSeries(registry, prefix, labels, VllmTimes());
      series_.push_back(series);
    }
  }

  void Refresh() override {
    std::vector<engine::Load> sums(options().dp_size);
    for (std::size_t rank = 0; rank < loads().size(); ++rank) {
      const auto& load = loads()[rank];
      auto& sum = sums[DpRank(rank)];
      sum.requests_running += load.requests_running;
      sum.requests_waiting += load.requests_waiting;
      sum.blocks_active += load.blocks_active;
      sum.blocks_total += load.blocks_total;
      auto& seen = preemptions_seen_[rank];
      if (load.preemptions_total > seen) {
        series_[DpRank(rank)].preemptions->Increment(static_cast<double>(
            load.preemptions_total - std::exchange(seen, load.preemptions_total)));
      }
    }
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      const auto& sum = sums[rank];
      const double usage = sum.blocks_total == 0 ? 0.0
                                                 : static_cast<double>(sum.blocks_active) /
                                                       static_cast<double>(sum.blocks_total);
      series_[rank].running->Set(sum.requests_running);
      series_[rank].waiting->Set(sum.requests_waiting);
      series_[rank].usage->Set(usage);
      series_[rank].gpu_usage->Set(usage);
    }
  }

 private:
  struct Series {
    Gauge *running = nullptr, *waiting = nullptr, *usage = nullptr, *gpu_usage = nullptr;
    Counter* preemptions = nullptr;
    TimeSeries times;
  };
  [[nodiscard]] Series& Of(RankIndex rank) { return series_[DpRank(Value(rank))]; }

  std::vector<Series> series_;  ///< by dp rank
  std::vector<std::uint64_t> preemptions_seen_;
};

/// One set of series for all ranks.
class SglangMetrics final : public BoundMetrics {
 public:
  explicit SglangMetrics(const Options& options) : BoundMetrics(options) {}

  void FirstToken(RankIndex, double seconds) override { times_.first->Observe(seconds); }
  void NextTokens(RankIndex, std::uint32_t count, double gap) override {
    for (std::uint32_t i = 0; i < count; ++i) {
      times_.next->Observe(gap);
    }
  }
  void Completed(RankIndex, double seconds) override {
    times_.whole->Observe(seconds);
    requests_->Increment();
  }

 protected:
  void Create(prometheus::Registry& registry, const std::string& model) override {
    const Labels of_requests = {{"model_name", model}, {"engine_type", "sglang"}};
    Labels of_scheduler = of_requests;
    for (const char* rank : {"tp_rank", "pp_rank", "moe_ep_rank"}) {
      of_scheduler[rank] = "0";
    }
    running_ = AddGauge(
        registry, "sglang:num_running_reqs", "The number of running requests.", of_scheduler);
    queued_ =
        AddGauge(registry, "sglang:num_queue_reqs", "The number of queued requests.", of_scheduler);
    hit_rate_ = AddGauge(registry, "sglang:cache_hit_rate", "Cache hit rate.", of_scheduler);
    requests_ = AddCounter(
        registry, "sglang:num_requests_total", "Number of requests processed.", of_requests);
    times_ = TimeSeries(registry, "sglang:", of_requests, SglangTimes());
  }

  void Changed(const engine::Load& before, const engine::Load& now) override {
    hits_ += now.cache_hit_tokens - before.cache_hit_tokens;  // wraps around in between
    total_ += now.cache_total_tokens - before.cache_total_tokens;
    if (total_ != 0) {
      rate_ = static_cast<double>(hits_) / static_cast<double>(total_);
    }
  }

  void Refresh() override {
    double running = 0;
    double waiting = 0;
    for (const auto& load : loads()) {
      running += load.requests_running;
      waiting += load.requests_waiting;
    }
    running_->Set(running);
    queued_->Set(waiting);
    hit_rate_->Set(rate_);
  }

 private:
  Gauge *running_ = nullptr, *queued_ = nullptr, *hit_rate_ = nullptr;
  Counter* requests_ = nullptr;
  TimeSeries times_;
  std::uint64_t hits_ = 0, total_ = 0;  ///< of the latest pass of each rank
  double rate_ = 0;
};

}  // namespace

std::unique_ptr<NativeMetrics> NativeMetrics::New(const Options& options) {
  if (options.engine == mocker::EngineType::kSglang) {
    return std::make_unique<SglangMetrics>(options);
  }
  return std::make_unique<VllmMetrics>(options);
}

}  // namespace understudy::worker
