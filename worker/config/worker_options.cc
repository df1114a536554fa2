#include "worker/config/worker_options.h"

#include "worker/kv_relay/batcher.h"

#include <cmath>
#include <random>
#include <utility>

namespace understudy::worker {
namespace {

struct Range {
  const char* flag;
  std::int64_t value;
  std::int64_t least;
  std::int64_t most;
};

Status CheckRanges(const WorkerOptions& o) {
  const Range ranges[] = {
      {"--num-workers", o.num_workers, 1, 65'536},
      {"--engine-threads", o.engine_threads, 0, 1024},
      {"--prompt-tokens-max", o.prompt_tokens_max, 1, 1 << 28},
      {"--body-bytes-max", o.body_bytes_max, 1024, std::int64_t{1} << 31},
      {"--nesting-max", o.nesting_max, 4, 1024},
      {"--waiting-requests-max", o.waiting_requests_max, 1, 1 << 24},
      {"--open-streams-max", o.open_streams_max, 1, 1 << 20},
      {"--drain-grace-ms", o.drain_grace_ms, 0, 60'000},
      {"--kv-batching-window-ms", o.kv_batching_window_ms, 0, BatchingOptions::kWindowMax.count()},
      {"--kv-batching-blocks", o.kv_batching_blocks, 1, 1 << 20},
  };
  for (const auto& range : ranges) {
    if (range.value < range.least || range.value > range.most) {
      if (std::string_view(range.flag) == "--num-workers" && range.value < 1) {
        return Fail(Errc::kInvalidConfig,
                    "--num-workers must be at least 1, got " + std::to_string(range.value));
      }
      return Fail(Errc::kInvalidConfig,
                  std::string(range.flag) + " must be between " + std::to_string(range.least) +
                      " and " + std::to_string(range.most) + ", got " +
                      std::to_string(range.value));
    }
  }
  return {};
}

Status CheckReal(const char* flag, double value) {
  if (!std::isfinite(value) || value < 0) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " must be a finite number >= 0, got " + std::to_string(value));
  }
  return {};
}

EngineRelease ReleaseOf(const WorkerOptions& o) {
  return {.semantics = SemanticsOf(o.engine_semantics.value_or(o.dynamo_release))};
}

/// What the reference has and this version has not.
Status CheckBuilt(const WorkerOptions& o) {
  const auto refuse = [](const char* flag, const std::string& value, const char* allowed) {
    return Fail(Errc::kInvalidConfig,
                std::string(flag) + " '" + value +
                    "' is not supported by this version (allowed: " + allowed + ")");
  };
  if (o.request_plane != "nats") {
    return refuse("--request-plane", o.request_plane, "nats");
  }
  if (o.event_plane != "nats" && o.event_plane != "zmq") {
    return refuse("--event-plane", o.event_plane, "nats, zmq");
  }
  if (o.durable_kv_events && o.event_plane != "nats") {
    return Fail(Errc::kInvalidConfig,
                "--durable-kv-events needs --event-plane nats, got '" + o.event_plane + "'");
  }
  if (o.durable_kv_events && o.dynamo_release != "1.3") {
    return Fail(Errc::kInvalidConfig,
                "--durable-kv-events needs --dynamo-release 1.3, got '" + o.dynamo_release +
                    "': 1.6 has no durable mode");
  }
  if (o.discovery_backend != "etcd" && o.discovery_backend != "file") {
    return refuse("--discovery-backend", o.discovery_backend, "etcd, file");
  }
  return {};
}

/// The role, in the place where the engine looks for it, and what follows from it.
Status FillRole(WorkerConfig& config, const WorkerOptions& o, const Environment& env) {
  auto& role = config.args.engine.worker_type;
  UNDERSTUDY_TRY(const auto asked, AskedRole(o.role, config.args.warnings));
  UNDERSTUDY_TRY(role, RoleOf(asked, role));
  UNDERSTUDY_TRY(config.bootstrap_ports,
                 BootstrapPorts(o.role, config.args.bootstrap_port, config.workers, role));
  const char* component = role == mocker::WorkerType::kPrefill ? "prefill" : "backend";
  UNDERSTUDY_TRY(config.endpoint,
                 transport::ParseEndpointName(o.endpoint.value_or("dyn://" + WorkerNamespace(env) +
                                                                  "." + component + ".generate")));
  return {};
}

Status CheckRanks(const WorkerConfig& config) {
  constexpr std::uint64_t kDpSizeMax = 65'536;
  constexpr std::uint64_t kRanksMax = 1U << 20;
  const std::uint64_t dp_size = config.args.engine.rank_count;
  if (dp_size > kDpSizeMax) {
    return Fail(Errc::kInvalidConfig,
                "--data-parallel-size (dp_size) must be at most " + std::to_string(kDpSizeMax) +
                    ", got " + std::to_string(dp_size));
  }
  if (dp_size * config.workers > kRanksMax) {
    return Fail(Errc::kInvalidConfig,
                "--num-workers x --data-parallel-size must be at most " +
                    std::to_string(kRanksMax) + " ranks, got " +
                    std::to_string(dp_size * config.workers));
  }
  return {};
}

}  // namespace

Result<WorkerConfig> MakeWorkerConfig(WorkerOptions options, const Environment& env) {
  WorkerConfig config;
  UNDERSTUDY_TRY_STATUS(CheckRanges(options));
  if (options.stagger_delay_s != -1) {
    UNDERSTUDY_TRY_STATUS(CheckReal("--stagger-delay (or -1)", options.stagger_delay_s));
  }
  UNDERSTUDY_TRY(config.args,
                 LoadEngineArgs(options.engine, ReleaseOf(options), options.model_path));
  UNDERSTUDY_TRY_STATUS(CheckBuilt(options));
  config.limits.prompt_tokens_max = static_cast<std::size_t>(options.prompt_tokens_max);
  config.limits.body_bytes_max = static_cast<std::size_t>(options.body_bytes_max);
  config.limits.nesting_max = static_cast<std::size_t>(options.nesting_max);
  config.workers = static_cast<std::uint32_t>(options.num_workers);
  config.dp_size = config.args.engine.rank_count;
  UNDERSTUDY_TRY_STATUS(FillRole(config, options, env));
  UNDERSTUDY_TRY_STATUS(CheckRanks(config));
  UNDERSTUDY_TRY(config.engine_ports,
                 MakeEnginePorts({options.zmq_kv_events_ports,
                                  options.zmq_replay_ports,
                                  config.args.zmq_kv_events_port,
                                  config.args.zmq_replay_port,
                                  config.workers,
                                  config.dp_size}));
  config.seed = options.seed
                    ? static_cast<std::uint64_t>(*options.seed)
                    : (std::uint64_t{std::random_device{}()} << 32 | std::random_device{}());
  config.device_type = DeviceType(env);
  config.drain_limit =
      std::chrono::seconds(Number(env, "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", 900, 0));
  UNDERSTUDY_TRY(config.status, StatusFromEnvironment(env));
  if (const auto id = Text(env, "DYN_STABLE_ROUTING_ID", ""); !id.empty()) {
    config.stable_routing_id = id;
  }
  config.options = std::move(options);
  return config;
}

}  // namespace understudy::worker
