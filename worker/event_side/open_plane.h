// Which wire the process's events take.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/zmq.h"
#include "worker/config/environment.h"
#include "worker/event_side/zmq_brokers.h"

#include <memory>
#include <string>

namespace understudy::worker {

/// The event plane as flags and environment say.
struct EventWire {
  std::string plane;  ///< nats or zmq
  std::string host;   ///< zmq without brokers: where subscribers reach us
  ZmqBrokers brokers{};
};

/// The host is DYN_EVENT_PLANE_HOST, else our address towards the NATS server. Resolves names:
/// before the loop runs. kUnavailable names the host, kInvalidConfig the variable and its value.
[[nodiscard]] Result<EventWire> EventWireOf(const std::string& event_plane, const Environment& env);

/// `nats` and `zmq` are used by the planes of those names only; `nats` outlives it. Brokers have
/// been found.
[[nodiscard]] std::unique_ptr<transport::EventPlane> OpenEventPlane(
    transport::Loop& loop,
    const EventWire& wire,
    transport::NatsClient* nats,
    std::shared_ptr<transport::ZmqContext> zmq);

}  // namespace understudy::worker
