#include "worker/event_side/open_plane.h"

#include "understudy/transport/zmq.h"
#include "worker/call/local_address.h"

#include <utility>

namespace understudy::worker {

Result<std::string> EventPlaneHost(const WorkerOptions& options, const Environment& env) {
  if (options.event_plane != "zmq") {
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
                                                      const WorkerOptions& options,
                                                      transport::NatsClient* nats,
                                                      const std::string& host) {
  if (options.event_plane == "zmq") {
    transport::ZmqEventPlaneOptions zmq;
    zmq.advertised_host = host;
    return transport::NewZmqEventPlane(transport::ZmqContext::New(), std::move(zmq));
  }
  return transport::NewNatsEventPlane(loop, *nats);
}

}  // namespace understudy::worker
