// What `understudy call` was asked to do.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/records.h"
#include "worker/config/environment.h"
#include "worker/event_side/zmq_brokers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// As given on the command line, before any check.
struct CallFlags {
  std::string discovery_backend;
  std::string event_plane = "nats";
  std::optional<std::string> endpoint;
  std::optional<std::string> ns;
  std::optional<std::string> instance;
  std::optional<std::string> token_ids;
  std::optional<std::int64_t> prompt_tokens;
  std::int64_t seed = 0;
  std::int64_t max_tokens = 16;
  std::optional<std::int64_t> dp_rank;
  std::optional<std::string> model;
  std::optional<std::string> codec;
  std::int64_t count = 1;
  std::int64_t concurrency = 1;
  double timeout_s = 30;
  std::optional<std::int64_t> cancel_after;
  std::string cancel_with = "kill";
  std::optional<std::string> listen_host;
  std::optional<double> watch_seconds;
  bool list = false;
  bool watch = false;
  bool json = false;
  bool quiet = false;
};

/// Checked. `requests` is 0 when only listing or watching.
struct CallPlan {
  std::string discovery_backend;
  bool zmq_events = false;  ///< what is watched: the ZMQ event plane, not that of NATS
  ZmqBrokers zmq_brokers;   ///< where it is heard; unused: at each publisher
  transport::EndpointName endpoint;
  bool whole_namespace = false;  ///< --list without --endpoint: every endpoint of the namespace
  std::optional<std::uint64_t> instance;  ///< none = all found, in turn
  std::vector<std::uint32_t> token_ids;   ///< empty = synthetic
  std::uint32_t prompt_tokens = 0;
  std::uint64_t seed = 0;
  std::uint32_t max_tokens = 0;
  std::optional<std::uint32_t> dp_rank;
  std::optional<std::string> model;  ///< none = the name in the instance's model card
  std::optional<transport::PayloadCodec>
      codec;  ///< none = what the instance record asks for, else JSON
  std::uint32_t requests = 0;
  std::uint32_t concurrency = 1;
  Nanoseconds timeout{};  ///< without an answer or a token
  std::optional<std::uint32_t> cancel_after;
  transport::StreamControl cancel_with = transport::StreamControl::kKill;
  std::optional<std::string> listen_host;
  std::optional<Nanoseconds> watch_for;
  bool list = false;
  bool watch = false;
  bool json = false;
  bool quiet = false;
};

/// kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<CallPlan> MakeCallPlan(const CallFlags& flags, const Environment& env);

/// The prompt of request number `index`: the given token ids, or `prompt_tokens` random ones that
/// depend on seed and index only.
[[nodiscard]] std::vector<std::uint32_t> PromptOf(const CallPlan& plan, std::uint32_t index);

}  // namespace understudy::worker
