// Everything a worker process can be told, from flags and environment.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/records.h"
#include "worker/config/engine_input.h"
#include "worker/config/engine_ports.h"
#include "worker/config/environment.h"
#include "worker/config/roles.h"
#include "worker/config/status_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// Names and defaults of `python -m dynamo.mocker` 1.3.0 where it has the flag. Source:
/// conformance.md 2.1.
struct WorkerOptions {
  std::optional<std::string> model_path, model_name, endpoint;
  EngineFlags engine;
  std::int64_t num_workers = 1;
  RoleFlags role;
  double stagger_delay_s = -1;
  std::string discovery_backend, request_plane, event_plane;
  std::optional<std::string> zmq_kv_events_ports, zmq_replay_ports;

  // ours
  std::string dynamo_release = "both";
  bool forward_pass_metrics = true, durable_kv_events = false;
  std::int64_t kv_batching_window_ms = 0, kv_batching_blocks = 128;
  std::optional<std::int64_t> seed;
  std::optional<std::string> engine_semantics;  ///< 1.3 or 1.6; none = the release's
  bool strict_reference = false;
  std::string on_lease_loss = "restore";
  std::int64_t engine_threads = 0;
  std::int64_t prompt_tokens_max = 1'048'576, body_bytes_max = 64 << 20, nesting_max = 64;
  std::int64_t waiting_requests_max = 65'536, open_streams_max = 20'000;
  std::int64_t drain_grace_ms = 200;
};

/// What the parts of the worker are built from, after the checks.
struct WorkerConfig {
  WorkerOptions options;
  /// Of one worker: engine.rank_count is its dp size, engine.worker_type its role.
  mocker::EngineArgs args;
  std::vector<std::uint16_t> bootstrap_ports;  ///< of prefill workers, one each; or none
  transport::EndpointName endpoint;
  transport::DecodeLimits limits;
  std::uint32_t dp_size = 1, workers = 1;
  std::vector<EnginePorts> engine_ports;  ///< empty, or one per worker
  std::uint64_t seed = 0;
  std::string device_type;
  Nanoseconds drain_limit = std::chrono::seconds(900);
  StatusOptions status;
  std::optional<std::string> stable_routing_id;
};

/// Checks ranges and combinations; reads the file of --extra-engine-args and the model's
/// configuration. kInvalidConfig: the text names the option, the value and what is allowed (texts
/// of the reference where it has one).
[[nodiscard]] Result<WorkerConfig> MakeWorkerConfig(WorkerOptions options, const Environment& env);

}  // namespace understudy::worker
