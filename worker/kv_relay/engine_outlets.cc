#include "worker/kv_relay/engine_outlets.h"

#include "worker/log/log.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace understudy::worker {

using transport::EngineKvEvent;

namespace {

constexpr std::string_view kLog = "worker.kv_relay";

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void Failed(const char* what, DpRank dp_rank, const Error& error) {
  Log(LogLevel::kError,
      kLog,
      std::string("Failed to create ") + what + " for dp_rank " + std::to_string(Value(dp_rank)) +
          ": " + error.message);
}

}  // namespace

void EngineOutlets::AddRank(WorkerId worker_id, DpRank dp_rank, const EnginePorts& ports) {
  const RankIndex index{static_cast<std::uint32_t>(ranks_.size())};
  Rank& rank = ranks_.emplace_back();
  const auto offset = [&](std::uint16_t base) {
    return static_cast<std::uint16_t>(base + Value(dp_rank));
  };
  EnginePublisher::Options sink;
  sink.dp_rank = dp_rank;
  sink.port = offset(ports.events);
  EngineSubscriber::Options source;
  source.endpoint = "tcp://127.0.0.1:" + std::to_string(sink.port);
  if (ports.replay) {
    sink.replay_port = offset(*ports.replay);
    source.replay_endpoint = "tcp://127.0.0.1:" + std::to_string(*sink.replay_port);
  }
  source.converter.worker_id = worker_id;
  source.converter.dp_rank = dp_rank;
  source.converter.block_size = options_.block_size;
  source.converter.rules = options_.rules;
  auto publisher = EnginePublisher::New(loop_, context_, std::move(sink));
  if (!publisher) {
    Failed("ZMQ KV event sink", dp_rank, publisher.error());
    return;
  }
  auto subscriber = EngineSubscriber::New(
      loop_, context_, std::move(source), [this, index](std::vector<transport::RouterEvent> unit) {
        relay_.TakeUnit(index, std::move(unit));
      });
  if (!subscriber) {
    Failed("KV event relay", dp_rank, subscriber.error());
    return;
  }
  rank.publisher = std::move(*publisher);
  rank.subscriber = std::move(*subscriber);
}

EngineKvEvent EngineOutlets::FromEngine(engine::KvEvent&& event) const {
  if (event.kind == engine::KvEvent::Kind::kCleared) {
    return transport::EngineKvCleared{};
  }
  transport::KvScope scope;
  if (const auto medium = MediumOfTier(event.tier); !medium.empty()) {
    scope.medium = medium;
  }
  std::vector<BlockHash> hashes;
  hashes.reserve(event.blocks.size());
  for (const engine::KvBlock& block : event.blocks) {
    hashes.push_back(block.block_hash);
  }
  scope.group_idx = 0;
  if (event.kind == engine::KvEvent::Kind::kRemoved) {
    return transport::EngineKvRemoved{std::move(scope), std::move(hashes)};
  }
  transport::EngineKvStored stored;
  stored.scope = std::move(scope);
  stored.hashes = std::move(hashes);
  stored.parent = event.parent;
  stored.tokens = std::move(event.tokens);
  stored.block_size = options_.block_size;
  return stored;
}

bool EngineOutlets::NamesTokens(const engine::KvEvent& event) {
  if (event.kind != engine::KvEvent::Kind::kStored ||
      event.tokens.size() == event.blocks.size() * options_.block_size) {
    return true;
  }
  if (without_tokens_++ == 0) {
    Log(LogLevel::kWarn,
        kLog,
        "the engine stores blocks without naming their tokens: routers are not told of them",
        {{"rank", std::to_string(Value(event.rank))}});
  }
  return false;
}

void EngineOutlets::Take(std::vector<engine::KvEvent> events) {
  for (engine::KvEvent& event : events) {
    const std::uint32_t index = Value(event.rank);
    if (index >= ranks_.size() || ranks_[index].publisher == nullptr || !NamesTokens(event)) {
      continue;
    }
    auto& unit = ranks_[index].unit;
    if (unit.empty()) {
      touched_.push_back(index);
    }
    unit.push_back(FromEngine(std::move(event)));
  }
  for (const std::uint32_t index : touched_) {
    ranks_[index].publisher->Publish(ranks_[index].unit, UnixSeconds());
    ranks_[index].unit.clear();
  }
  touched_.clear();
}

std::vector<const EngineSubscriber*> EngineOutlets::subscribers() const {
  std::vector<const EngineSubscriber*> all;
  for (const Rank& rank : ranks_) {
    if (rank.subscriber != nullptr) {
      all.push_back(rank.subscriber.get());
    }
  }
  return all;
}

}  // namespace understudy::worker
