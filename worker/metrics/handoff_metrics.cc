#include "worker/metrics/handoff_metrics.h"

#include <array>

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

constexpr std::array kResultNames = {"completed", "failed", "cancelled"};
const Histogram::BucketBoundaries kDurationBuckets = {
    .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};

/// A counter that follows a total kept elsewhere.
void Follow(Counter& counter, std::uint64_t total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) {
    counter.Increment(more);
  }
}

class PrometheusHandoffMetrics final : public HandoffMetrics {
 public:
  explicit PrometheusHandoffMetrics(const std::string& end)
      : end_({{"end", end}}),
        running_(Level("understudy_handoffs_running", "Requests whose hand-off is not over")),
        duration_(prometheus::BuildHistogram()
                      .Name("understudy_handoff_duration_seconds")
                      .Help("From taking the request to the end of its completed hand-off")
                      .Register(registry_)
                      .Add(end_, kDurationBuckets)),
        ended_(Family("understudy_handoffs_total", "Hand-offs that are over, by result")),
        refused_(Family("understudy_handoffs_refused_total",
                        "Requests beyond the hand-offs that a rank may have open")
                     .Add(end_)) {
    for (const auto* name : kResultNames) {
      With(ended_, "result", name);
    }
    if (end == "source") {
      source_ = std::make_unique<Source>(*this);
    }
  }

  void Begun() override { running_.Increment(); }
  void Over(HandoffResult result, double seconds) override {
    running_.Decrement();
    With(ended_, "result", kResultNames[static_cast<std::size_t>(result)]).Increment();
    if (result == HandoffResult::kCompleted) {
      duration_.Observe(seconds);
    }
  }

  std::string Scrape(const Totals& totals) override {
    Follow(refused_, totals.refused);
    if (source_) {
      source_->Update(totals);
    }
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  /// Of the side that listens.
  struct Source {
    explicit Source(PrometheusHandoffMetrics& m)
        : pending(m.Level("understudy_handoffs_pending",
                          "Hand-offs of which one participant has come and not the other")),
          timeouts(m.Family("understudy_handoff_rendezvous_timeouts_total",
                            "Participants whose partner did not come in time")
                       .Add(m.end_)),
          rejected(m.Family("understudy_handoff_participants_rejected_total",
                            "Participants that were turned away at the rendezvous")),
          sources(rejected.Add({{"participant", "source"}})),
          destinations(rejected.Add({{"participant", "destination"}})),
          connections(m.Family("understudy_bootstrap_connections_total",
                               "Connections to the bootstrap port, by what became of them")) {}
    void Update(const Totals& totals) {
      pending.Set(static_cast<double>(totals.pending));
      Follow(timeouts, totals.sources.rendezvous_timeouts_total);
      Follow(sources, totals.sources.sources_rejected_total);
      Follow(destinations, totals.sources.destinations_rejected_total);
      const auto& c = totals.connections;
      const auto follow = [this](const char* result, std::uint64_t total) {
        Follow(connections.Add({{"result", result}}), total);
      };
      follow("registered", c.registered_total);
      follow("refused", c.refused_total);
      follow("dropped", c.dropped_total);
      follow("malformed", c.bad_total);
      follow("cut_off", c.cut_off_total);
      follow("timed_out", c.timed_out_total);
    }
    Gauge& pending;
    Counter& timeouts;
    prometheus::Family<Counter>& rejected;
    Counter &sources, &destinations;
    prometheus::Family<Counter>& connections;
  };

  prometheus::Family<Counter>& Family(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  Gauge& Level(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(end_);
  }
  Counter& With(prometheus::Family<Counter>& family, const char* name, const char* value) {
    Labels labels = end_;
    labels[name] = value;
    return family.Add(labels);
  }

  prometheus::Registry registry_;
  const Labels end_;
  Gauge& running_;
  Histogram& duration_;
  prometheus::Family<Counter>& ended_;
  Counter& refused_;
  std::unique_ptr<Source> source_;
};

}  // namespace

std::unique_ptr<HandoffMetrics> HandoffMetrics::New(const std::string& end) {
  return std::make_unique<PrometheusHandoffMetrics>(end);
}

}  // namespace understudy::worker
