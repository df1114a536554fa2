#include "worker/metrics/engine_event_metrics.h"

#include "worker/kv_relay/engine_subscriber.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

using Subscribers = std::span<const EngineSubscriber* const>;

class Writer {
 public:
  Writer(const EngineEventLabels& labels, Subscribers subscribers)
      : common_("dynamo_namespace=\"" + labels.ns + "\",dynamo_component=\"" + labels.component +
                "\",worker_id=\"" + labels.worker_id + "\""),
        subscribers_(subscribers) {}

  void Family(std::string_view name, std::string_view help) {
    name_ = name;
    text_ += "# HELP ";
    text_ += name;
    text_ += ' ';
    text_ += help;
    text_ += "\n# TYPE ";
    text_ += name;
    text_ += " counter\n";
  }
  /// `labels` as in Prometheus' text. A series without an event is left out, unless `always`.
  void Series(const std::string& labels,
              const std::function<std::uint64_t(const EngineSubscriber&)>& count,
              bool always = false) {
    std::uint64_t sum = 0;
    for (const EngineSubscriber* subscriber : subscribers_) {
      sum += count(*subscriber);
    }
    if (sum > 0 || always) {
      text_ += name_ + "{" + common_ + (labels.empty() ? "" : "," + labels) + "} " +
               std::to_string(sum) + "\n";
    }
  }
  [[nodiscard]] std::string Text() && { return std::move(text_); }

 private:
  std::string common_, name_, text_;
  Subscribers subscribers_;
};

std::string EventType(std::size_t type) {
  return "event_type=\"" + std::string(EventTypeLabel(static_cast<KvEventType>(type))) + "\"";
}

void WriteConversion(Writer& out) {
  out.Family("dynamo_component_kv_publisher_zmq_events_total",
             "KV events that engines sent, and those that passed the filters");
  for (std::size_t type = 0; type < kKvEventTypes; ++type) {
    out.Series(EventType(type) + ",stage=\"received\"",
               [=](const auto& s) { return s.conversion().received[type]; });
    out.Series(EventType(type) + ",stage=\"accepted\"",
               [=](const auto& s) { return s.conversion().accepted[type]; });
  }
  out.Family("dynamo_component_kv_publisher_zmq_filtered_events_total",
             "KV events of engines that say nothing to a router");
  for (std::size_t type = 0; type < kKvEventTypes; ++type) {
    for (std::size_t reason = 0; reason < kKvFilterReasons; ++reason) {
      const auto label = FilterReasonLabel(static_cast<KvFilterReason>(reason));
      out.Series(EventType(type) + ",reason=\"" + std::string(label) + "\"",
                 [=](const auto& s) { return s.conversion().filtered[type][reason]; });
    }
  }
  out.Family("dynamo_component_kv_publisher_zmq_conversion_issues_total",
             "KV events of engines that were dropped because they make no sense");
  out.Series("event_type=\"stored\",reason=\"repeated_hash\"",
             [](const auto& s) { return s.conversion().repeated_hash; });
  out.Series("event_type=\"unknown\",reason=\"unreadable\"",
             [](const auto& s) { return s.conversion().unreadable; });
  out.Family("dynamo_component_kv_publisher_zmq_suspicious_events_total",
             "KV events of engines that were forwarded although they look wrong");
  out.Series("event_type=\"stored\",reason=\"empty_store_blocks\"",
             [](const auto& s) { return s.conversion().empty_store_blocks; });
}

void WriteBatches(Writer& out) {
  const auto outcome = [&](const char* name, const auto& count) {
    out.Series("outcome=\"" + std::string(name) + "\"", count, /*always=*/true);
  };
  out.Family("understudy_engine_batches_total", "Batches of KV events of engines, by their fate");
  outcome("live", [](const auto& s) { return s.order().applied - s.order().replayed; });
  outcome("replayed", [](const auto& s) { return s.order().replayed; });
  outcome("lost", [](const auto& s) { return s.order().lost; });
  outcome("duplicate", [](const auto& s) { return s.order().duplicates; });
  outcome("voided", [](const auto& s) { return s.order().voided; });
  outcome("unreadable",
          [](const auto& s) { return s.counters().bad_batches + s.counters().bad_frames; });
  out.Family("understudy_engine_replay_requests_total", "Repairs asked for at engines");
  out.Series(
      "", [](const auto& s) { return s.counters().replay_requests; }, true);
  out.Family("understudy_engine_replay_silences_total", "Repairs that engines did not answer");
  out.Series(
      "", [](const auto& s) { return s.counters().replay_silences; }, true);
  out.Family("understudy_engine_restarts_total", "Engines that began their numbers anew");
  out.Series(
      "", [](const auto& s) { return s.order().restarts; }, true);
}

}  // namespace

std::string EngineEventMetrics(const EngineEventLabels& labels, Subscribers subscribers) {
  if (subscribers.empty()) {
    return {};
  }
  Writer out(labels, subscribers);
  WriteConversion(out);
  WriteBatches(out);
  return std::move(out).Text();
}

}  // namespace understudy::worker
