// Counters of what engines said on their sockets, for the status server. Source: events.md 5.
#pragma once

#include <span>
#include <string>

namespace understudy::worker {

class EngineSubscriber;

/// Labels of the families that Dynamo's own publisher has; `worker_id` is in hex.
struct EngineEventLabels {
  std::string ns, component, worker_id;
};

/// Prometheus text with the sums over `subscribers`; empty without one. Series appear with their
/// first event. On the loop's thread.
[[nodiscard]] std::string EngineEventMetrics(const EngineEventLabels& labels,
                                             std::span<const EngineSubscriber* const> subscribers);

}  // namespace understudy::worker
