// The status routes: /live, /health, /metrics. Source: wire.md 8 and the README's compatibility
// table.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/transport/http_server.h"
#include "worker/config/status_options.h"

#include <functional>
#include <string>

namespace understudy::worker {

struct HealthState {
  bool registered = false;      ///< every record is in discovery
  bool engine_started = false;  ///< startup_time has passed
  bool draining = false;        ///< the process ends
  bool drained = false;         ///< a controller took every worker of the process out of discovery
  [[nodiscard]] bool visible() const { return registered && !drained; }
};

/// 200 while registered, started and neither draining nor drained (or the starting status says
/// ready before the first registration).
[[nodiscard]] transport::HttpResponse HealthReply(const HealthState& state,
                                                  const std::string& endpoint,
                                                  bool starting_ready,
                                                  Nanoseconds uptime,
                                                  bool live_only);

/// `metrics` gives the Prometheus text.
[[nodiscard]] std::function<transport::HttpResponse(const transport::HttpRequest&)> StatusRoutes(
    const StatusOptions& status,
    const std::string& endpoint,
    std::function<HealthState()> state,
    std::function<std::string()> metrics,
    std::function<Nanoseconds()> uptime);

}  // namespace understudy::worker
