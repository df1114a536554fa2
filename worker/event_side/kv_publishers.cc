#include "worker/event_side/kv_publishers.h"

#include <utility>

namespace understudy::worker {

std::vector<transport::Record> RecordsOf(
    const std::vector<std::unique_ptr<transport::EventPublisher>>& publishers) {
  std::vector<transport::Record> records;
  records.reserve(publishers.size());
  for (const auto& publisher : publishers) {
    if (auto record = publisher->record()) {
      records.push_back(std::move(*record));
    }
  }
  return records;
}

Result<KvPublishers> OpenKvPublishers(transport::EventPlane& plane,
                                      const ReleaseProfile& profile,
                                      const transport::EndpointName& endpoint,
                                      RankIndex rank,
                                      std::uint64_t worker_id,
                                      std::uint32_t dp_rank) {
  KvPublishers open;
  for (std::size_t wire = 0; wire < profile.wires.size(); ++wire) {
    UNDERSTUDY_TRY(auto publisher,
                   plane.Open(NewChannel(profile.wires[wire], kKvEventsTopic, endpoint),
                              transport::Delivery::kKept));
    open.outputs.push_back({publisher.get(), profile.wires[wire].answers.events, false});
    open.sources.push_back({wire, rank, worker_id, dp_rank, publisher->channel()});
    open.publishers.push_back(std::move(publisher));
  }
  return open;
}

}  // namespace understudy::worker
