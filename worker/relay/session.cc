#include "worker/relay/session.h"

#include "worker/registration/query_endpoints.h"

#include <utility>

namespace understudy::worker {

using transport::RouterEvent;

RelaySession::RelaySession(const Process& process, const Worker& worker)
    : process_(process),
      worker_(worker),
      relay_(process.loop,
             process.plane,
             process.clock,
             process.metrics,
             KvRelay::Options{process.plan.batching, true}),
      ingress_(process.requests, process.metrics, process.clock),
      queries_(process.loop, ingress_, relay_, process.metrics) {}

Result<std::unique_ptr<RelaySession>> RelaySession::Open(const Process& process,
                                                         const RelayedEngine& engine,
                                                         const Worker& worker) {
  std::unique_ptr<RelaySession> self(new RelaySession(process, worker));
  for (std::uint32_t i = 0; i < worker.ranks; ++i) {
    UNDERSTUDY_TRY_STATUS(self->OpenRank(engine, worker.first_rank + i));
  }
  self->ServeQueries();
  return self;
}

Status RelaySession::OpenRank(const RelayedEngine& engine, std::uint32_t dp_rank) {
  const RelayPlan& plan = process_.plan;
  const RankIndex rank{static_cast<std::uint32_t>(relay_.rank_count())};
  UNDERSTUDY_TRY(
      auto open,
      OpenKvPublishers(process_.plane, plan.profile, plan.endpoint, rank, worker_.id, dp_rank));
  relay_.AddRank(WorkerId{worker_.id}, DpRank{dp_rank}, std::move(open.outputs));
  for (std::size_t i = 0; i < open.publishers.size(); ++i) {
    publishers_.push_back(std::move(open.publishers[i]));
    sources_.push_back(std::move(open.sources[i]));
  }
  EngineSubscriber::Options options;
  UNDERSTUDY_TRY(options.endpoint, EndpointOfRank(engine.events, dp_rank));
  if (!engine.replay.empty()) {
    UNDERSTUDY_TRY(options.replay_endpoint, EndpointOfRank(engine.replay, dp_rank));
  }
  options.topic = plan.topic;
  options.replay_from_start = true;  // the engine may have been at work for long
  options.converter.worker_id = WorkerId{worker_.id};
  options.converter.dp_rank = DpRank{dp_rank};
  options.converter.block_size = worker_.block_size;
  options.converter.image_token_id = plan.image_token_id;
  options.converter.rules = plan.profile.kv_conversion;
  UNDERSTUDY_TRY(auto subscriber,
                 EngineSubscriber::New(process_.loop,
                                       process_.zmq,
                                       std::move(options),
                                       [this, rank](std::vector<RouterEvent> unit) {
                                         relay_.TakeUnit(rank, std::move(unit));
                                       }));
  subscribers_.push_back(std::move(subscriber));
  return {};
}

void RelaySession::ServeQueries() {
  QueryPlace place;
  place.endpoint = process_.plan.endpoint;
  place.device_type = process_.plan.device_type;
  place.subject_prefix = process_.subject_prefix;
  place.own_instance = process_.own_id;
  const auto endpoints = MakeQueryEndpoints(place, process_.plan.profile, sources_);
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    subjects_.push_back(endpoints[i].instance.transport_value);
    queries_.Add(
        subjects_.back(), sources_[i].rank, process_.plan.profile.wires[sources_[i].wire].answers);
    query_records_.push_back(transport::EncodeInstance(endpoints[i].instance));
  }
  for (const auto& endpoint : endpoints) {
    if (endpoint.source) {
      query_records_.push_back(transport::EncodeEventSource(*endpoint.source));
    }
  }
}

std::vector<transport::Record> RelaySession::Records() const {
  std::vector<transport::Record> records = RecordsOf(publishers_);
  records.insert(records.end(), query_records_.begin(), query_records_.end());
  return records;
}

void RelaySession::Stop() {
  subscribers_.clear();
  relay_.Stop();
  queries_.CloseAll();
}

}  // namespace understudy::worker
