// Where a process shows its health and metrics. Source: wire.md 8.
#pragma once

#include "understudy/base/result.h"
#include "worker/config/environment.h"

#include <cstdint>
#include <string>

namespace understudy::worker {

struct StatusOptions {
  bool enabled = false;
  std::string host = "0.0.0.0";
  std::uint16_t port = 0;
  std::string health_path = "/health", live_path = "/live";
  bool starting_ready = false;  ///< DYN_SYSTEM_STARTING_HEALTH_STATUS=ready
};

/// DYN_SYSTEM_{PORT,HOST,HEALTH_PATH,LIVE_PATH,STARTING_HEALTH_STATUS}. kInvalidConfig names the
/// variable.
[[nodiscard]] Result<StatusOptions> StatusFromEnvironment(const Environment& env);

}  // namespace understudy::worker
