#include "worker/relay/options.h"

#include "worker/config/text_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::uint32_t kPortMax = 65535;
constexpr std::size_t kEnginesMax = 4096;
constexpr std::uint32_t kRanksMax = 4096;  ///< over all engines: each has sockets of its own

Status Refuse(const char* flag, const std::string& value, const std::string& allowed) {
  return Fail(Errc::kInvalidConfig,
              std::string(flag) + " '" + value + "' is refused (allowed: " + allowed + ")");
}

/// `tcp://host:port` in three parts; false for anything else.
bool SplitTcp(std::string_view endpoint, std::string& head, std::uint32_t& port) {
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with("tcp://") || colon == std::string_view::npos ||
      colon <= std::string_view("tcp://").size()) {
    return false;
  }
  const std::string_view digits = endpoint.substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  head = endpoint.substr(0, colon + 1);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() && port >= 1 &&
         port <= kPortMax;
}

/// Engines bind to any address (`tcp://*:5557`); from here that is this machine.
Result<std::string> ParseEndpoint(const char* flag, const std::string& text) {
  std::string endpoint = text;
  if (const std::size_t star = endpoint.find("://*:"); star != std::string::npos) {
    endpoint.replace(star + 3, 1, "127.0.0.1");
  }
  std::string head;
  std::uint32_t port = 0;
  if (!SplitTcp(endpoint, head, port) &&
      !(endpoint.starts_with("ipc://") && endpoint.size() > std::string_view("ipc://").size())) {
    return tl::make_unexpected(
        Refuse(flag, text, "tcp://host:port with a port from 1 to 65535, or ipc://path").error());
  }
  return endpoint;
}

Result<std::uint64_t> ParseInstance(const std::string& text) {
  std::uint64_t id = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || id == 0) {
    return tl::make_unexpected(
        Refuse("--instance-id", text, "an instance id in hexadecimal, as discovery writes it")
            .error());
  }
  return id;
}

Status CheckRange(const char* flag,
                  std::optional<std::int64_t> value,
                  std::int64_t least,
                  std::int64_t most) {
  if (value && (*value < least || *value > most)) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " must be between " + std::to_string(least) + " and " +
                    std::to_string(most) + ", got " + std::to_string(*value));
  }
  return {};
}

Status CheckNumbers(const RelayFlags& f) {
  constexpr std::int64_t kTokenMax = 0xFFFF'FFFF;
  UNDERSTUDY_TRY_STATUS(CheckRange("--data-parallel-size", f.data_parallel_size, 1, kRanksMax));
  UNDERSTUDY_TRY_STATUS(
      CheckRange("--data-parallel-start-rank", f.data_parallel_start_rank, 0, kPortMax));
  UNDERSTUDY_TRY_STATUS(CheckRange("--block-size", f.block_size, 1, 1 << 20));
  UNDERSTUDY_TRY_STATUS(CheckRange("--image-token-id", f.image_token_id, 0, kTokenMax));
  UNDERSTUDY_TRY_STATUS(CheckRange(
      "--kv-batching-window-ms", f.kv_batching_window_ms, 0, BatchingOptions::kWindowMax.count()));
  return CheckRange("--kv-batching-blocks", f.kv_batching_blocks, 1, 1 << 20);
}

Status CheckPlanes(const RelayFlags& f) {
  if (f.event_plane != "nats" && f.event_plane != "zmq") {
    return Refuse("--event-plane", f.event_plane, "nats, zmq");
  }
  if (f.discovery_backend != "etcd" && f.discovery_backend != "file") {
    return Refuse("--discovery-backend", f.discovery_backend, "etcd, file");
  }
  return {};
}

/// Lists have an entry per engine.
Status CheckCount(const char* flag, std::size_t count, std::size_t engines) {
  if (count != engines) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " must have as many entries as --zmq-endpoint (" +
                    std::to_string(engines) + "), got " + std::to_string(count));
  }
  return {};
}

Result<std::vector<RelayedEngine>> MakeEngines(const RelayFlags& f) {
  if (!f.zmq_endpoint) {
    return Fail(Errc::kInvalidConfig,
                "--zmq-endpoint is needed: where the engine publishes its KV events "
                "(vLLM: `endpoint` of --kv-events-config)");
  }
  std::vector<RelayedEngine> engines;
  for (const std::string_view text : SplitList(*f.zmq_endpoint, ',')) {
    UNDERSTUDY_TRY(engines.emplace_back().events,
                   ParseEndpoint("--zmq-endpoint", std::string(text)));
  }
  if (f.zmq_replay_endpoint) {
    const auto replays = SplitList(*f.zmq_replay_endpoint, ',');
    UNDERSTUDY_TRY_STATUS(CheckCount("--zmq-replay-endpoint", replays.size(), engines.size()));
    for (std::size_t i = 0; i < replays.size(); ++i) {
      UNDERSTUDY_TRY(engines[i].replay,
                     ParseEndpoint("--zmq-replay-endpoint", std::string(replays[i])));
    }
  }
  if (f.instance_id) {
    const auto ids = SplitList(*f.instance_id, ',');
    UNDERSTUDY_TRY_STATUS(CheckCount("--instance-id", ids.size(), engines.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      UNDERSTUDY_TRY(engines[i].worker_id, ParseInstance(std::string(ids[i])));
    }
  }
  return engines;
}

Status CheckEngines(const RelayFlags& f, const std::vector<RelayedEngine>& engines) {
  if (engines.size() > kEnginesMax ||
      engines.size() * static_cast<std::size_t>(f.data_parallel_size.value_or(1)) > kRanksMax) {
    return Fail(Errc::kInvalidConfig,
                "--zmq-endpoint x --data-parallel-size must be at most " +
                    std::to_string(kRanksMax) + " ranks");
  }
  if (!f.instance_id && engines.size() > 1) {
    return Fail(Errc::kInvalidConfig,
                "several entries of --zmq-endpoint need --instance-id: whose events are whose");
  }
  if (!f.follow && !f.instance_id) {
    return Fail(Errc::kInvalidConfig, "--no-follow needs --instance-id");
  }
  if (!f.follow && !f.block_size) {
    return Fail(Errc::kInvalidConfig, "--no-follow needs --block-size: no model card is read");
  }
  return {};
}

std::optional<std::uint32_t> Narrow(std::optional<std::int64_t> value) {
  return value ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

}  // namespace

Result<RelayPlan> MakeRelayPlan(const RelayFlags& flags, const Environment& env) {
  RelayPlan plan;
  UNDERSTUDY_TRY_STATUS(CheckPlanes(flags));
  UNDERSTUDY_TRY_STATUS(CheckNumbers(flags));
  UNDERSTUDY_TRY(plan.engines, MakeEngines(flags));
  UNDERSTUDY_TRY_STATUS(CheckEngines(flags, plan.engines));
  UNDERSTUDY_TRY(plan.endpoint,
                 transport::ParseEndpointName(flags.endpoint.value_or(
                     "dyn://" + WorkerNamespace(env) + ".backend.generate")));
  UNDERSTUDY_TRY(plan.profile, MakeReleaseProfile(flags.dynamo_release, plan.endpoint));
  UNDERSTUDY_TRY(plan.status, StatusFromEnvironment(env));
  plan.topic = flags.zmq_topic;
  plan.first_rank = Narrow(flags.data_parallel_start_rank);
  plan.ranks = Narrow(flags.data_parallel_size);
  plan.block_size = Narrow(flags.block_size);
  plan.image_token_id = Narrow(flags.image_token_id);
  plan.follow = flags.follow;
  plan.batching.window = std::chrono::milliseconds(flags.kv_batching_window_ms);
  plan.batching.blocks_max = static_cast<std::size_t>(flags.kv_batching_blocks);
  plan.batching.merge_units = plan.profile.merges_units;
  plan.discovery_backend = flags.discovery_backend;
  plan.event_plane = flags.event_plane;
  plan.device_type = DeviceType(env);
  return plan;
}

Result<std::string> EndpointOfRank(const std::string& endpoint, std::uint32_t rank) {
  if (rank == 0) {
    return endpoint;
  }
  std::string head;
  std::uint32_t port = 0;
  if (!SplitTcp(endpoint, head, port)) {
    return Fail(
        Errc::kInvalidConfig,
        "'" + endpoint + "' has no port to which rank " + std::to_string(rank) + " could be added");
  }
  if (port + rank > kPortMax) {
    return Fail(Errc::kInvalidConfig,
                "'" + endpoint + "' + rank " + std::to_string(rank) + " is beyond port 65535");
  }
  return head + std::to_string(port + rank);
}

}  // namespace understudy::worker
