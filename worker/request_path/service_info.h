// Answers to $SRV.PING, $SRV.INFO and $SRV.STATS: the NATS micro-service face of a component.
// Source: wire.md 4.1.
#pragma once

#include "understudy/transport/nats.h"
#include "worker/request_path/ingress.h"

#include <functional>
#include <string>
#include <vector>

namespace understudy::worker {

struct ServiceIdentity {
  std::string ns, component;
  std::string version;  ///< of the release
  std::string id;       ///< 22 letters and digits, new per process
  std::string started;  ///< RFC 3339, UTC
};

[[nodiscard]] ServiceIdentity NewServiceIdentity(const std::string& ns,
                                                 const std::string& component,
                                                 const std::string& version);
/// `<ns>_<component>`, slugified.
[[nodiscard]] std::string ServiceName(const std::string& ns, const std::string& component);
/// `verb` is PING, INFO or STATS. JSON text.
[[nodiscard]] std::string ServiceReply(const std::string& verb,
                                       const ServiceIdentity& identity,
                                       const std::vector<EndpointCounts>& endpoints);
/// Subscribes to the three levels of each verb; `endpoints` is asked at each reply.
void ServeServiceInfo(transport::NatsClient& nats,
                      ServiceIdentity identity,
                      std::function<std::vector<EndpointCounts>()> endpoints);

}  // namespace understudy::worker
