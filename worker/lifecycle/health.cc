#include "worker/lifecycle/health.h"

#include <nlohmann/json.hpp>

namespace understudy::worker {

transport::HttpResponse HealthReply(const HealthState& state,
                                    const std::string& endpoint,
                                    bool starting_ready,
                                    Nanoseconds uptime,
                                    bool live_only) {
  const bool endpoint_ready = state.visible() && state.engine_started && !state.draining;
  const bool ready = endpoint_ready || (starting_ready && !state.draining && !state.drained);
  nlohmann::ordered_json body;
  body["status"] = ready ? "ready" : "notready";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(uptime);
  body["uptime"]["secs"] = seconds.count();
  body["uptime"]["nanos"] = (uptime - seconds).count();
  body["endpoints"][endpoint] = endpoint_ready ? "ready" : "notready";
  return {ready || live_only ? 200 : 503, body.dump()};
}

std::function<transport::HttpResponse(const transport::HttpRequest&)> StatusRoutes(
    const StatusOptions& status,
    const std::string& endpoint,
    std::function<HealthState()> state,
    std::function<std::string()> metrics,
    std::function<Nanoseconds()> uptime) {
  return [=](const transport::HttpRequest& request) -> transport::HttpResponse {
    const bool get = request.method == "GET" || request.method == "HEAD";
    if (get && request.path == status.live_path) {
      return HealthReply(state(), endpoint, status.starting_ready, uptime(), true);
    }
    if (get && request.path == status.health_path) {
      return HealthReply(state(), endpoint, status.starting_ready, uptime(), false);
    }
    if (get && request.path == "/metrics") {
      return {200, metrics()};
    }
    if (get && request.path == "/metadata") {
      return {404, "Discovery metadata not available"};
    }
    if (request.path.starts_with("/engine/")) {
      nlohmann::ordered_json body;
      body["error"] = "Route not found";
      body["message"] = "Route " + request.path + " not found";
      return {404,
              body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
              "application/json"};
    }
    return {404, "Route not found"};
  };
}

}  // namespace understudy::worker
