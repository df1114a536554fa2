#include "worker/registration/query_endpoints.h"

namespace understudy::worker {

std::vector<QueryEndpoint> MakeQueryEndpoints(const QueryPlace& place,
                                              const ReleaseProfile& profile,
                                              const std::vector<KvSource>& sources) {
  std::vector<QueryEndpoint> endpoints;
  endpoints.reserve(sources.size());
  for (const KvSource& source : sources) {
    const ReleaseWire& wire = profile.wires[source.wire];
    const std::uint64_t instance_id = place.own_instance.value_or(source.worker_id);
    auto& endpoint = endpoints.emplace_back();
    auto& instance = endpoint.instance;
    instance.name = place.endpoint;
    instance.name.endpoint = QueryEndpointName(wire, source.dp_rank, source.channel.publisher_id);
    if (instance_id != source.worker_id && !wire.has_sources) {
      instance.name.endpoint += "_worker" + std::to_string(source.worker_id);
    }
    instance.instance_id = instance_id;
    instance.transport_value =
        place.subject_prefix + instance.name.endpoint + "-" + transport::HexId(instance_id);
    instance.device_type = place.device_type;
    instance.request_plane_codec = profile.request_plane_codec;
    if (wire.has_sources) {
      endpoint.source =
          transport::EventSource{source.channel, source.worker_id, source.dp_rank, instance};
    }
  }
  return endpoints;
}

}  // namespace understudy::worker
