#include "worker/registration/control_endpoints.h"

#include "worker/registration/subjects.h"

#include <utility>

namespace understudy::worker {

std::vector<ControlEndpoint> MakeControlEndpoints(const WorkerConfig& config,
                                                  const ReleaseProfile& profile,
                                                  const std::vector<WorkerIdentity>& workers) {
  std::vector<ControlEndpoint> endpoints;
  for (std::uint32_t worker = 0; worker < workers.size(); ++worker) {
    // <service>.<endpoint>-<hex>, or <service>.<token>.<endpoint>-<hex>
    const std::string& subject = workers[worker].subject;
    auto prefix = subject.substr(0, subject.rfind('.') + 1);
    if (workers.size() > 1) {
      prefix.insert(prefix.rfind('.', prefix.size() - 2) + 1, "c");
    }
    for (const char* name : {kControlEndpoint, kClearKvBlocksEndpoint}) {
      if (config.endpoint.endpoint == name) {
        continue;
      }
      ControlEndpoint endpoint;
      endpoint.worker = worker;
      endpoint.clears_only = name == kClearKvBlocksEndpoint;
      auto& instance = endpoint.instance;
      instance.name = config.endpoint;
      instance.name.endpoint = name;
      instance.instance_id = workers[worker].instance_id;
      instance.transport_value = prefix + name + "-" + transport::HexId(instance.instance_id);
      instance.device_type = config.device_type;
      instance.request_plane_codec = profile.request_plane_codec;
      endpoints.push_back(std::move(endpoint));
    }
  }
  return endpoints;
}

std::vector<std::string> ControlSubjects(const std::vector<ControlEndpoint>& endpoints,
                                         std::size_t workers) {
  return SubjectsOf(endpoints, workers > 1);
}

}  // namespace understudy::worker
