// What `understudy relay` was asked to do.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/records.h"
#include "worker/config/environment.h"
#include "worker/config/release_profile.h"
#include "worker/config/status_options.h"
#include "worker/kv_relay/batcher.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// As given on the command line, before any check.
struct RelayFlags {
  std::string discovery_backend, event_plane;
  std::optional<std::string> endpoint, zmq_endpoint, zmq_replay_endpoint, instance_id;
  std::string zmq_topic;
  std::optional<std::int64_t> data_parallel_size, data_parallel_start_rank, block_size,
      image_token_id;
  std::string dynamo_release = "both";
  std::int64_t kv_batching_window_ms = 0, kv_batching_blocks = 128;
  bool follow = true;
};

/// One engine: where its first rank speaks, and whose events they are.
struct RelayedEngine {
  std::string events;                      ///< tcp://host:port of the rank 0
  std::string replay;                      ///< empty: what was missed is lost
  std::optional<std::uint64_t> worker_id;  ///< none: the only instance of the endpoint
};

/// Checked.
struct RelayPlan {
  transport::EndpointName endpoint;
  std::vector<RelayedEngine> engines;
  std::string topic;
  /// None: as the instance's model card says.
  std::optional<std::uint32_t> first_rank, ranks, block_size;
  std::optional<std::uint32_t> image_token_id;
  /// Events count for an instance as long as discovery lists it; else from the start to the end.
  bool follow = true;
  BatchingOptions batching;
  ReleaseProfile profile;
  std::string discovery_backend, event_plane, device_type;
  StatusOptions status;
};

/// kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<RelayPlan> MakeRelayPlan(const RelayFlags& flags, const Environment& env);

/// Of a data-parallel rank: port + rank. kInvalidConfig: not a port any more, or, from rank 1 on,
/// an address without one.
[[nodiscard]] Result<std::string> EndpointOfRank(const std::string& endpoint, std::uint32_t rank);

}  // namespace understudy::worker
