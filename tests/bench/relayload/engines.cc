#include "tests/bench/relayload/engines.h"

#include <chrono>
#include <utility>

namespace understudy::relayload {

using transport::EngineKvEvent;
using transport::EngineKvRemoved;
using transport::EngineKvStored;

namespace {
/// Of one rank: what a relay that comes late may still ask for.
constexpr std::size_t kRingBatches = 2000;
}  // namespace

Result<std::unique_ptr<Engines>> Engines::New(transport::Loop& loop,
                                              std::shared_ptr<transport::ZmqContext> context,
                                              const EnginesOptions& options) {
  std::unique_ptr<Engines> self(new Engines(options));
  for (std::uint32_t i = 0; i < options.engines * options.ranks; ++i) {
    worker::EnginePublisher::Options own;
    own.dp_rank = DpRank{i % options.ranks};
    own.host = "127.0.0.1";
    own.port = static_cast<std::uint16_t>(options.base_port + i);
    if (options.replay_base != 0) {
      own.replay_port = static_cast<std::uint16_t>(options.replay_base + i);
    }
    own.ring_limits.batches_max = kRingBatches;
    UNDERSTUDY_TRY(auto publisher, worker::EnginePublisher::New(loop, context, std::move(own)));
    self->ranks_.push_back({std::move(publisher), {}});
  }
  return self;
}

void Engines::PublishBatch() {
  Rank& rank = ranks_[turn_++ % ranks_.size()];
  std::vector<EngineKvEvent> events;
  EngineKvRemoved removed;
  for (std::uint32_t i = 0; i < options_.blocks_per_batch; ++i) {
    const std::uint64_t name = ++last_block_;
    EngineKvStored stored;
    stored.hashes = {BlockHash{name}};
    stored.block_size = options_.block_size;
    stored.tokens.assign(options_.block_size, static_cast<std::uint32_t>(name));
    stored.scope.medium = "GPU";
    events.emplace_back(std::move(stored));
    rank.held.push_back(name);
    if (rank.held.size() > options_.blocks_held) {
      removed.hashes.push_back(BlockHash{rank.held.front()});
      rank.held.pop_front();
    }
  }
  if (!removed.hashes.empty()) {
    removed_ += removed.hashes.size();
    events.emplace_back(std::move(removed));
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  rank.publisher->Publish(events, std::chrono::duration<double>(now).count());
  ++batches_;
}

}  // namespace understudy::relayload
