#include "worker/kv_relay/relay.h"

#include "worker/log/log.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

using transport::RouterEvent;

constexpr std::string_view kTarget = "worker.kv_relay";
/// Of the array around the events.
constexpr std::size_t kArrayBytes = 8;
constexpr std::size_t kKeepCapacityBytes = 64U << 10U;

RouterEvent::Kind KindOf(engine::KvEvent::Kind kind) {
  switch (kind) {
    case engine::KvEvent::Kind::kStored:
      return RouterEvent::Kind::kStored;
    case engine::KvEvent::Kind::kRemoved:
      return RouterEvent::Kind::kRemoved;
    case engine::KvEvent::Kind::kCleared:
      break;
  }
  return RouterEvent::Kind::kCleared;
}

/// Message at the border: engine::KvEvent -> RouterEvent.
RouterEvent FromEngine(engine::KvEvent&& event) {
  RouterEvent out;
  out.event_id = event.event_id;
  out.kind = KindOf(event.kind);
  out.tier = event.tier;
  out.parent = event.parent;
  out.blocks.reserve(event.blocks.size());
  for (const engine::KvBlock& block : event.blocks) {
    out.blocks.push_back({block.block_hash, block.tokens_hash});
  }
  return out;
}

void Reset(std::string& text) {
  text.clear();
  if (text.capacity() > kKeepCapacityBytes) {
    std::string().swap(text);
  }
}

}  // namespace

KvRelay::KvRelay(transport::Loop& loop,
                 const transport::EventPlane& plane,
                 const Clock& clock,
                 Metrics& metrics,
                 const Options& options)
    : plane_(plane), clock_(clock), metrics_(metrics), options_(options), timer_(loop.NewTimer()) {}

void KvRelay::AddRank(WorkerId worker_id, DpRank dp_rank, std::vector<KvOutput> outputs) {
  RankPublisher::Options options;
  options.worker_id = worker_id;
  options.dp_rank = dp_rank;
  options.batching = options_.batching;
  options.answers_queries = options_.answers_queries;
  groups_.resize(std::max(groups_.size(), outputs.size()));
  ranks_.push_back(std::make_unique<Rank>(
      Rank{RankPublisher(options, clock_.Now()), worker_id, dp_rank, std::move(outputs), {}, 0}));
}

std::size_t KvRelay::EventBytesMax() const {
  const std::size_t limit = plane_.payload_bytes_max();
  return limit > kArrayBytes ? limit - kArrayBytes : 1;
}

void KvRelay::Take(std::vector<engine::KvEvent> events) {
  for (engine::KvEvent& event : events) {
    const std::uint32_t index = Value(event.rank);
    if (index >= ranks_.size()) {
      continue;
    }
    auto& unit = ranks_[index]->unit;
    if (unit.empty()) {
      touched_.push_back(index);
    }
    unit.push_back(FromEngine(std::move(event)));
  }
  for (const std::uint32_t index : touched_) {
    TakeUnit(RankIndex{index}, std::exchange(ranks_[index]->unit, {}));
  }
  touched_.clear();
}

void KvRelay::TakeUnit(RankIndex index, std::vector<RouterEvent> unit) {
  if (stopped_) {
    return;
  }
  Rank& rank = *ranks_[Value(index)];
  const TimePoint now = clock_.Now();
  rank.publisher.Take(std::move(unit), now, EventBytesMax(), [&](const RouterEvent& event) {
    Encode(rank, event);
  });
  EndUnit(rank);
  if (const auto due = rank.publisher.due()) {
    ArmBatching(*due, now);
  }
}

void KvRelay::Encode(Rank& rank, const RouterEvent& event) {
  metrics_.KvEventsPublished(1);
  for (std::size_t i = 0; i < rank.outputs.size(); ++i) {
    const KvOutput& output = rank.outputs[i];
    Reset(payload_);
    if (output.json) {
      transport::AppendRouterEventJson(payload_, event, output.form);
    } else {
      transport::AppendRouterEvent(payload_, event, output.form);
    }
    if (!output.form.in_array) {
      Send(output, payload_);
      continue;
    }
    Group& group = groups_[i];
    const bool full =
        group.events >= kEventsPerMessage ||
        (group.events > 0 && (group.blocks + event.blocks.size() > kBlocksPerMessage ||
                              group.maps.size() + payload_.size() > EventBytesMax()));
    if (full) {
      FlushGroup(rank, i);
    }
    group.maps += payload_;
    ++group.events;
    group.blocks += event.blocks.size();
  }
}

void KvRelay::FlushGroup(Rank& rank, std::size_t output) {
  Group& group = groups_[output];
  if (group.events == 0) {
    return;
  }
  std::string message;
  message.reserve(group.maps.size() + kArrayBytes);
  transport::AppendRouterEventsHead(message, group.events);
  message += group.maps;
  Send(rank.outputs[output], message);
  Reset(group.maps);
  group.events = group.blocks = 0;
}

void KvRelay::EndUnit(Rank& rank) {
  for (std::size_t i = 0; i < rank.outputs.size(); ++i) {
    FlushGroup(rank, i);
  }
  if (const std::uint64_t lost = rank.publisher.lost(); lost != rank.lost) {
    Log(LogLevel::kWarn,
        kTarget,
        "Input event gap detected: raw events dropped before batching",
        {{"worker_id", std::to_string(Value(rank.worker_id))},
         {"dp_rank", std::to_string(Value(rank.dp_rank))},
         {"gap", std::to_string(lost - rank.lost)}});
    metrics_.KvEventsLost(lost - std::exchange(rank.lost, lost));
  }
}

void KvRelay::Send(const KvOutput& output, std::string_view payload) {
  const auto sent = output.publisher->Publish(payload);
  if (sent) {
    failing_ = false;
    return;
  }
  metrics_.KvMessageNotSent();
  if (!std::exchange(failing_, true)) {
    Log(LogLevel::kWarn,
        kTarget,
        "KV events are not sent, routers will ask for them",
        {{"error", sent.error().message}});
  }
}

void KvRelay::ArmBatching(TimePoint due, TimePoint now) {
  if (!armed_for_ || due < *armed_for_) {
    armed_for_ = due;
    timer_->After(std::max(due - now, Nanoseconds(0)), [this] { FlushBatches(); });
  }
}

void KvRelay::FlushBatches() {
  armed_for_.reset();
  const TimePoint now = clock_.Now();
  for (auto& rank : ranks_) {
    const auto due = rank->publisher.due();
    if (due && *due <= now) {
      rank->publisher.Flush(
          now, EventBytesMax(), [&](const RouterEvent& event) { Encode(*rank, event); });
      EndUnit(*rank);
    } else if (due) {
      ArmBatching(*due, now);
    }
  }
}

void KvRelay::SayNewestAgain() {
  if (stopped_) {
    return;
  }
  RouterEvent event;
  for (auto& rank : ranks_) {
    const EventRing& ring = rank->publisher.indexer().ring();
    if (ring.empty()) {
      continue;
    }
    ring.Read(ring.last_id(), event);
    event.worker_id = rank->worker_id;
    event.dp_rank = rank->dp_rank;
    for (const KvOutput& output : rank->outputs) {
      Send(output, transport::EncodeRouterEvents({&event, 1}, output.form));
    }
  }
}

void KvRelay::Stop() {
  for (auto& rank : ranks_) {
    rank->publisher.Flush(
        clock_.Now(), EventBytesMax(), [&](const RouterEvent& event) { Encode(*rank, event); });
    EndUnit(*rank);
  }
  stopped_ = true;
  timer_->Cancel();
}

std::uint64_t KvRelay::doubtful() const {
  std::uint64_t sum = 0;
  for (const auto& rank : ranks_) {
    sum += rank->publisher.indexer().doubtful();
  }
  return sum;
}

}  // namespace understudy::worker
