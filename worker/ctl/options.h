// What `understudy ctl` was asked to do.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/records.h"
#include "understudy/transport/worker_control.h"
#include "worker/config/environment.h"

#include <cstdint>
#include <optional>
#include <string>

namespace understudy::worker {

/// As given on the command line, before any check. An operation shows only the flags it has.
struct CtlFlags {
  std::string discovery_backend = "etcd";
  std::optional<std::string> endpoint, ns, instance;
  bool all = false;
  std::string codec = "json";
  double timeout_s = 10;
  std::optional<std::string> listen_host;
  bool json = false;
  std::optional<std::int64_t> rank;
  bool watch = false;
  std::int64_t interval_ms = 1000;
  bool refuse_in_use = false;
  bool wait = false;
  std::optional<std::string> handoff_id;
  std::optional<std::uint64_t> generation;
  std::optional<std::string> token_ids;
  std::optional<std::int64_t> prompt_tokens;
  std::int64_t seed = 0;
  std::int64_t max_tokens = 1;
  std::optional<std::string> request_id;
};

/// Checked.
struct CtlPlan {
  std::string discovery_backend;
  transport::EndpointName endpoint;  ///< `control` of the component
  std::optional<std::uint64_t> instance;
  bool all = false;  ///< every instance found; otherwise there must be one
  transport::PayloadCodec codec = transport::PayloadCodec::kJson;
  transport::ControlCommand command;
  bool follows = false;   ///< the answer goes on until the worker or Ctrl-C ends it
  bool endless = false;   ///< and only Ctrl-C does
  Nanoseconds timeout{};  ///< until the first item; without `follows` between all of them
  std::optional<std::string> listen_host;
  bool json = false;
};

/// kInvalidConfig names the option, the value and what is allowed.
[[nodiscard]] Result<CtlPlan> MakeCtlPlan(transport::ControlOp op,
                                          const CtlFlags& flags,
                                          const Environment& env);

}  // namespace understudy::worker
