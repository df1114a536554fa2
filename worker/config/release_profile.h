// All that differs between Dynamo releases on the wire, in one place: elsewhere there is no `if` on
// the release.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/records.h"

#include <cstdint>
#include <string>
#include <vector>

namespace understudy::worker {

/// One event topic as one release's readers expect it. Source: events.md 3.
struct EventRoute {
  std::string topic;
  std::string subject;             ///< NATS subject the envelope goes to
  std::uint64_t publisher_id = 0;  ///< in the envelope and in the channel record
  transport::Record channel;       ///< `v1/event_channels/...`
};

struct ReleaseProfile {
  std::string name;
  std::string service_version;          ///< in $SRV replies
  std::vector<EventRoute> load_routes;  ///< kv_metrics, one per release served
};

/// `release` is 1.3 in this version. kInvalidConfig names the option, the value and what is
/// allowed. `publisher_id`: random.
[[nodiscard]] Result<ReleaseProfile> MakeReleaseProfile(const std::string& release,
                                                        const transport::EndpointName& endpoint,
                                                        std::uint64_t publisher_id);

}  // namespace understudy::worker
