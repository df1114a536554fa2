#include "worker/event_side/open_plane.h"

#include "worker/call/local_address.h"

#include <utility>

namespace understudy::worker {

Result<EventWire> EventWireOf(const std::string& event_plane, const Environment& env) {
  EventWire wire{.plane = event_plane, .host = {}};
  if (event_plane != "zmq") {
    return wire;
  }
  UNDERSTUDY_TRY(wire.brokers, ZmqBrokersFromEnvironment(env));
  if (wire.brokers.used()) {
    return wire;
  }
  wire.host = Text(env, "DYN_EVENT_PLANE_HOST", "");
  if (wire.host.empty()) {
    auto host = LocalAddressTowards(NatsFromEnvironment(env).url);
    if (!host) {
      return FailWith(
          "no address for subscribers of the event plane (DYN_EVENT_PLANE_HOST sets one)",
          host.error());
    }
    wire.host = std::move(*host);
  }
  return wire;
}

std::unique_ptr<transport::EventPlane> OpenEventPlane(transport::Loop& loop,
                                                      const EventWire& wire,
                                                      transport::NatsClient* nats,
                                                      std::shared_ptr<transport::ZmqContext> zmq) {
  if (wire.plane == "zmq") {
    transport::ZmqEventPlaneOptions sockets;
    sockets.advertised_host = wire.host;
    sockets.brokers = wire.brokers.xsub;
    return transport::NewZmqEventPlane(loop, std::move(zmq), std::move(sockets));
  }
  return transport::NewNatsEventPlane(loop, *nats);
}

}  // namespace understudy::worker
