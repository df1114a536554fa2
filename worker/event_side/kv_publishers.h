// The publishers of one rank's KV events: one per release served.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/transport/event_plane.h"
#include "worker/config/release_profile.h"
#include "worker/kv_relay/relay.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace understudy::worker {

/// A publisher of KV events: one per rank and release.
struct KvSource {
  std::size_t wire = 0;  ///< of ReleaseProfile
  RankIndex rank{};
  std::uint64_t worker_id = 0;
  std::uint32_t dp_rank = 0;
  transport::EventChannel channel;
};

struct KvPublishers {
  std::vector<std::unique_ptr<transport::EventPublisher>> publishers;
  std::vector<KvOutput> outputs;  ///< to `publishers`
  std::vector<KvSource> sources;
};

/// What discovery is to know of publishers.
[[nodiscard]] std::vector<transport::Record> RecordsOf(
    const std::vector<std::unique_ptr<transport::EventPublisher>>& publishers);

/// kUnavailable as from the plane.
[[nodiscard]] Result<KvPublishers> OpenKvPublishers(transport::EventPlane& plane,
                                                    const ReleaseProfile& profile,
                                                    const transport::EndpointName& endpoint,
                                                    RankIndex rank,
                                                    std::uint64_t worker_id,
                                                    std::uint32_t dp_rank);

}  // namespace understudy::worker
