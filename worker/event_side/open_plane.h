// Which wire the process's events take.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/zmq.h"
#include "worker/config/environment.h"

#include <memory>
#include <string>

namespace understudy::worker {

/// Where subscribers of a ZMQ event plane reach us: DYN_EVENT_PLANE_HOST, else our address towards
/// the NATS server. Empty with another event plane. Resolves names: before the loop runs.
/// kUnavailable names the host.
[[nodiscard]] Result<std::string> EventPlaneHost(const std::string& event_plane,
                                                 const Environment& env);

/// `nats` and `zmq` are used by the planes of those names only; `nats` outlives it.
[[nodiscard]] std::unique_ptr<transport::EventPlane> OpenEventPlane(
    transport::Loop& loop,
    const std::string& event_plane,
    transport::NatsClient* nats,
    std::shared_ptr<transport::ZmqContext> zmq,
    const std::string& host);

}  // namespace understudy::worker
