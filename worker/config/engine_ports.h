// Where a worker's engine speaks of its cache, if it does so on sockets of its own.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// Base ports of one worker: rank r uses base + r.
struct EnginePorts {
  std::uint16_t events = 0;
  std::optional<std::uint16_t> replay;
};

/// From the flags, a list with a port per worker each, or from the engine arguments (one worker).
/// Empty: no sockets. kInvalidConfig: texts of dynamo.mocker 1.3.0 where it has one; overlapping
/// ranges are both named.
struct EnginePortsInput {
  std::optional<std::string> events_list, replay_list;    ///< --zmq-kv-events-ports, ...
  std::optional<std::uint16_t> events_port, replay_port;  ///< zmq_kv_events_port, ...
  std::uint32_t workers = 1, dp_size = 1;
};
[[nodiscard]] Result<std::vector<EnginePorts>> MakeEnginePorts(const EnginePortsInput& input);

}  // namespace understudy::worker
