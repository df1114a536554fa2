#include "worker/event_side/open_plane.h"

#include "worker/call/local_address.h"

#include <utility>

namespace understudy::worker {

Result<std::string> EventPlaneHost(const std::string& event_plane, const Environment& env) {
  if (event_plane != "zmq") {
    return std::string();
  }
  if (auto host = Text(env, "DYN_EVENT_PLANE_HOST", ""); !host.empty()) {
    return host;
  }
  auto host = LocalAddressTowards(NatsFromEnvironment(env).url);
  if (!host) {
    return FailWith("no address for subscribers of the event plane (DYN_EVENT_PLANE_HOST sets one)",
                    host.error());
  }
  return host;
}

std::unique_ptr<transport::EventPlane> OpenEventPlane(transport::Loop& loop,
                                                      const std::string& event_plane,
                                                      transport::NatsClient* nats,
                                                      std::shared_ptr<transport::ZmqContext> zmq,
                                                      const std::string& host) {
  if (event_plane == "zmq") {
    transport::ZmqEventPlaneOptions sockets;
    sockets.advertised_host = host;
    return transport::NewZmqEventPlane(std::move(zmq), std::move(sockets));
  }
  return transport::NewNatsEventPlane(loop, *nats);
}

}  // namespace understudy::worker
