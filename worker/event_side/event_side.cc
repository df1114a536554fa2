#include "worker/event_side/event_side.h"

#include "worker/log/log.h"
#include "worker/metrics/engine_event_metrics.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace understudy::worker {
namespace {
constexpr std::string_view kTarget = "worker.events";
}  // namespace

EventSide::EventSide(transport::Loop& loop,
                     transport::EventPlane& plane,
                     const Clock& clock,
                     Metrics& metrics,
                     const ReleaseProfile& profile,
                     transport::EndpointName endpoint,
                     const Options& options)
    : loop_(loop),
      plane_(plane),
      clock_(clock),
      metrics_(metrics),
      profile_(profile),
      endpoint_(std::move(endpoint)),
      options_(options) {
  KvRelay::Options relay;
  relay.batching = options_.batching;
  relay.answers_queries = options_.durable == nullptr;
  relay_ = std::make_unique<KvRelay>(loop_, plane_, clock_, metrics_, relay);
  if (options_.kv_events && !options_.engine_ports.empty()) {
    outlets_ = std::make_unique<EngineOutlets>(
        loop_,
        options_.zmq,
        *relay_,
        EngineOutlets::Options{options_.block_size, profile_.kv_conversion});
  }
}

Result<transport::EventPublisher*> EventSide::OpenOne(const ReleaseWire& wire,
                                                      const char* topic,
                                                      transport::Delivery delivery) {
  UNDERSTUDY_TRY(auto publisher, plane_.Open(NewChannel(wire, topic, endpoint_), delivery));
  return publishers_.emplace_back(std::move(publisher)).get();
}

Status EventSide::Open() {
  using transport::Delivery;
  std::vector<transport::EventPublisher*> loads;
  std::vector<transport::EventPublisher*> passes;
  std::vector<transport::EventPublisher*> sequences;
  for (const ReleaseWire& wire : profile_.wires) {
    UNDERSTUDY_TRY(loads.emplace_back(), OpenOne(wire, kLoadTopic, Delivery::kKept));
    if (options_.forward_passes) {
      UNDERSTUDY_TRY(passes.emplace_back(), OpenOne(wire, kForwardPassTopic, Delivery::kLossy));
    }
    if (wire.has_sequence_events && options_.computed_prompts) {
      UNDERSTUDY_TRY(sequences.emplace_back(), OpenOne(wire, kSequencesTopic, Delivery::kLossy));
    }
  }
  load_ = std::make_unique<LoadPublisher>(loop_, std::move(loads), metrics_);
  if (options_.forward_passes) {
    passes_ = std::make_unique<ForwardPassPublisher>(loop_, std::move(passes), clock_, metrics_);
  }
  const bool grouped = plane_.kind() == transport::EventTransport::Kind::kZmq;
  sequences_ = std::make_unique<SequencePublisher>(std::move(sequences), grouped, metrics_);
  return {};
}

void EventSide::AddWorker(std::uint64_t instance_id, std::uint32_t dp_size, EndpointProbe* probe) {
  workers_.push_back(instance_id);
  load_->AddWorker(instance_id, static_cast<std::uint32_t>(ranks_.size()), dp_size, probe);
  for (std::uint32_t dp_rank = 0; dp_rank < dp_size; ++dp_rank) {
    AddRank(instance_id, dp_rank);
  }
}

void EventSide::AddRank(std::uint64_t worker_id, std::uint32_t dp_rank) {
  const RankIndex rank{static_cast<std::uint32_t>(ranks_.size())};
  ranks_.push_back({worker_id, dp_rank});
  if (passes_) {
    passes_->AddRank(worker_id, dp_rank);
  }
  if (options_.kv_events) {
    AddKvRank(rank, worker_id, dp_rank);
  }
}

/// A rank whose events cannot be published serves without them.
std::vector<KvOutput> EventSide::OpenKvOutputs(RankIndex rank,
                                               std::uint64_t worker_id,
                                               std::uint32_t dp_rank) {
  auto open = OpenKvPublishers(plane_, profile_, endpoint_, rank, worker_id, dp_rank);
  if (!open) {
    Log(LogLevel::kError,
        kTarget,
        "Failed to create KV event publisher for dp_rank " + std::to_string(dp_rank) +
            ": nobody is told of its cache",
        {{"worker", transport::HexId(worker_id)}, {"error", open.error().message}});
    return {};
  }
  std::move(open->publishers.begin(), open->publishers.end(), std::back_inserter(publishers_));
  std::move(open->sources.begin(), open->sources.end(), std::back_inserter(sources_));
  return std::move(open->outputs);
}

void EventSide::AddKvRank(RankIndex rank, std::uint64_t worker_id, std::uint32_t dp_rank) {
  std::vector<KvOutput> outputs;
  if (options_.durable != nullptr) {
    for (const ReleaseWire& wire : profile_.wires) {
      outputs.push_back({options_.durable, wire.answers.events, true});
    }
  } else {
    outputs = OpenKvOutputs(rank, worker_id, dp_rank);
  }
  relay_->AddRank(WorkerId{worker_id}, DpRank{dp_rank}, std::move(outputs));
  if (outlets_) {
    outlets_->AddRank(
        WorkerId{worker_id}, DpRank{dp_rank}, options_.engine_ports[workers_.size() - 1]);
  }
}

std::vector<transport::Record> EventSide::ChannelRecords() const {
  return RecordsOf(publishers_);
}

std::string EventSide::EngineMetrics() const {
  if (!outlets_) {
    return {};
  }
  return EngineEventMetrics({endpoint_.ns, endpoint_.component, transport::HexId(workers_.front())},
                            outlets_->subscribers()) +
         "# TYPE understudy_engine_events_without_tokens_total counter\n"
         "understudy_engine_events_without_tokens_total " +
         std::to_string(outlets_->without_tokens()) + "\n";
}

void EventSide::Start() {
  if (passes_) {
    passes_->Start();
  }
}

void EventSide::OnKvEvents(std::vector<engine::KvEvent> events) {
  if (outlets_) {
    outlets_->Take(std::move(events));
  } else {
    relay_->Take(std::move(events));
  }
}

void EventSide::OnPassBatch(const engine::PassBatch& batch) {
  for (const auto& load : batch.loads) {
    load_->OnLoad(load);
  }
  if (passes_) {
    passes_->OnPasses(batch.passes);
  }
}

void EventSide::PromptComputed(RankIndex rank, std::string_view request_id) {
  const RankName& name = ranks_[Value(rank)];
  sequences_->PromptComputed(name.worker_id, name.dp_rank, request_id);
}

void EventSide::EndTurn() {
  sequences_->Send();
}

void EventSide::SayAllAgain() {
  load_->SayAllAgain();
  relay_->SayNewestAgain();
}

void EventSide::Stop() {
  if (std::exchange(stopped_, true)) {
    return;
  }
  relay_->Stop();
  sequences_->Send();
  load_->Stop();
  if (passes_) {
    passes_->Stop();
  }
}

}  // namespace understudy::worker
