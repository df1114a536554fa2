// What SIGUSR1 writes: ranks, queues, blocks, streams, connections, as one line of JSON.
#pragma once

#include "worker/lifecycle/health.h"
#include "worker/request_path/request_path.h"

#include <string>
#include <vector>

namespace understudy::worker {

struct DumpInput {
  std::string endpoint;
  std::vector<std::string> instances;  ///< hex
  HealthState health;
  double uptime_s = 0;
  bool nats_connected = false;
  std::string lease;
  std::vector<RequestPath::StreamSummary> streams;
  std::string engine_json;    ///< Engine::DumpState
  std::string handoffs_json;  ///< HandoffSide::DumpState; null for aggregated workers
};
[[nodiscard]] std::string StateDump(const DumpInput& input);

}  // namespace understudy::worker
