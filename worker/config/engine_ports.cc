#include "worker/config/engine_ports.h"

#include "worker/config/port_list.h"

namespace understudy::worker {
namespace {

constexpr const char* kEventsFlag = "--zmq-kv-events-ports";
constexpr const char* kReplayFlag = "--zmq-replay-ports";

/// The list of a flag, or the same port of the engine arguments for every worker.
Result<std::vector<std::uint16_t>> Ports(const char* flag,
                                         const std::optional<std::string>& list,
                                         const std::optional<std::uint16_t>& port,
                                         std::uint32_t workers) {
  UNDERSTUDY_TRY(auto ports, ParsePortList(flag, list.value_or(std::string()), workers));
  if (ports.empty() && port) {
    ports.assign(workers, *port);
  }
  return ports;
}

}  // namespace

Result<std::vector<EnginePorts>> MakeEnginePorts(const EnginePortsInput& input) {
  UNDERSTUDY_TRY(const auto events,
                 Ports(kEventsFlag, input.events_list, input.events_port, input.workers));
  UNDERSTUDY_TRY(const auto replay,
                 Ports(kReplayFlag, input.replay_list, input.replay_port, input.workers));
  if (events.empty() && !replay.empty()) {
    return Fail(Errc::kInvalidConfig, "--zmq-replay-ports requires --zmq-kv-events-ports");
  }
  std::vector<EnginePorts> ports;
  std::vector<PortRange> ranges;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ports.push_back({events[i], std::nullopt});
    ranges.push_back({kEventsFlag, events[i], input.dp_size});
    if (!replay.empty()) {
      ports.back().replay = replay[i];
      ranges.push_back({kReplayFlag, replay[i], input.dp_size});
    }
  }
  UNDERSTUDY_TRY_STATUS(CheckPortRanges(ranges));
  return ports;
}

}  // namespace understudy::worker
