#include "worker/config/status_options.h"

namespace understudy::worker {

Result<StatusOptions> StatusFromEnvironment(const Environment& env) {
  const auto port = Number(env, "DYN_SYSTEM_PORT", -1, -1);
  if (port > 65'535) {
    return Fail(Errc::kInvalidConfig,
                "DYN_SYSTEM_PORT must be between -1 and 65535, got " + std::to_string(port));
  }
  StatusOptions status;
  status.enabled = port >= 0;
  status.port = static_cast<std::uint16_t>(port < 0 ? 0 : port);
  status.host = Text(env, "DYN_SYSTEM_HOST", "0.0.0.0");
  status.health_path = Text(env, "DYN_SYSTEM_HEALTH_PATH", "/health");
  status.live_path = Text(env, "DYN_SYSTEM_LIVE_PATH", "/live");
  status.starting_ready = Text(env, "DYN_SYSTEM_STARTING_HEALTH_STATUS", "notready") == "ready";
  return status;
}

}  // namespace understudy::worker
