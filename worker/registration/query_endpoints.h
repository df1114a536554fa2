// Where routers ask for KV events that they missed. Source: events.md 4.3.
#pragma once

#include "understudy/transport/event_records.h"
#include "understudy/transport/records.h"
#include "worker/config/release_profile.h"
#include "worker/event_side/kv_publishers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

struct QueryEndpoint {
  transport::InstanceRecord instance;
  std::optional<transport::EventSource> source;
};

/// Who answers, and under which subjects.
struct QueryPlace {
  transport::EndpointName endpoint;
  std::string device_type;
  std::string subject_prefix;  ///< with the dot at its end
  /// Of the process that answers, when that is not the worker whose events they are.
  std::optional<std::uint64_t> own_instance;
};
/// One for each of `sources`, in their order.
[[nodiscard]] std::vector<QueryEndpoint> MakeQueryEndpoints(const QueryPlace& place,
                                                            const ReleaseProfile& profile,
                                                            const std::vector<KvSource>& sources);

}  // namespace understudy::worker
