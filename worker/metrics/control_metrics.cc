#include "worker/metrics/control_metrics.h"

#include <array>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace understudy::worker {
namespace {

constexpr std::array<const char*, 3> kReasons = {"invalid", "overloaded", "unservable"};

class PrometheusControlMetrics final : public ControlMetrics {
 public:
  PrometheusControlMetrics() {
    auto& requests = prometheus::BuildCounter()
                         .Name("understudy_control_requests_total")
                         .Help("Requests of controllers that could be read, by operation")
                         .Register(registry_);
    for (std::size_t op = 0; op < requests_.size(); ++op) {
      requests_[op] = &requests.Add(
          {{"op", std::string(transport::NameOf(static_cast<transport::ControlOp>(op)))}});
    }
    auto& refusals = prometheus::BuildCounter()
                         .Name("understudy_control_refusals_total")
                         .Help("Requests of controllers that were turned away, by reason")
                         .Register(registry_);
    for (std::size_t reason = 0; reason < refusals_.size(); ++reason) {
      refusals_[reason] = &refusals.Add({{"reason", kReasons[reason]}});
    }
    cleared_ = &prometheus::BuildCounter()
                    .Name("understudy_kv_blocks_cleared_total")
                    .Help("Cached blocks that controllers had forgotten")
                    .Register(registry_)
                    .Add({});
    streams_ = &Level("understudy_control_streams_open", "Answers to controllers under way");
    drained_ = &Level("understudy_drained_workers", "Workers that controllers took out");
    registrations_ =
        &Level("understudy_control_registrations", "Hand-offs registered by controllers");
  }

  void Requested(transport::ControlOp op) override {
    requests_[static_cast<std::size_t>(op)]->Increment();
  }
  void Refused(ControlRefusal reason) override {
    refusals_[static_cast<std::size_t>(reason)]->Increment();
  }
  void OpenStreams(std::size_t open) override { streams_->Set(static_cast<double>(open)); }
  void BlocksCleared(std::uint64_t count) override {
    cleared_->Increment(static_cast<double>(count));
  }
  void Drained(std::size_t workers) override { drained_->Set(static_cast<double>(workers)); }
  void Registrations(std::size_t count) override {
    registrations_->Set(static_cast<double>(count));
  }
  std::string Scrape() override {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  prometheus::Gauge& Level(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add({});
  }

  prometheus::Registry registry_;
  std::array<prometheus::Counter*, transport::kControlOpCount> requests_{};
  std::array<prometheus::Counter*, kReasons.size()> refusals_{};
  prometheus::Counter* cleared_ = nullptr;
  prometheus::Gauge *streams_ = nullptr, *drained_ = nullptr, *registrations_ = nullptr;
};

}  // namespace

std::unique_ptr<ControlMetrics> ControlMetrics::New() {
  return std::make_unique<PrometheusControlMetrics>();
}

}  // namespace understudy::worker
