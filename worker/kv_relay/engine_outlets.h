// The engine of this process as a real one would be: it tells of its cache on ZMQ sockets, and the
// relay reads them there.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/engine/types.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"
#include "worker/config/engine_ports.h"
#include "worker/kv_relay/conversion_rules.h"
#include "worker/kv_relay/engine_publisher.h"
#include "worker/kv_relay/engine_subscriber.h"
#include "worker/kv_relay/relay.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace understudy::worker {

/// On the loop's thread. A rank whose sockets cannot be had has no KV events: that is said once,
/// and requests are served all the same. Source: mission.md A.5; events.md 1.7.
class EngineOutlets {
 public:
  struct Options {
    std::uint32_t block_size = 0;
    KvConversionRules rules;
  };
  /// `relay` outlives it.
  EngineOutlets(transport::Loop& loop,
                std::shared_ptr<transport::ZmqContext> context,
                KvRelay& relay,
                const Options& options)
      : loop_(loop), context_(std::move(context)), relay_(relay), options_(options) {}

  /// The next RankIndex; of the relay, too.
  void AddRank(WorkerId worker_id, DpRank dp_rank, const EnginePorts& ports);

  /// Publishes: one message per rank, which the relay gets in a later turn of the loop. A stored
  /// event that does not name its tokens is dropped: nobody could tell what is in its blocks.
  void Take(std::vector<engine::KvEvent> events);

  /// Of the ranks that have one.
  [[nodiscard]] std::vector<const EngineSubscriber*> subscribers() const;
  /// Events that were dropped.
  [[nodiscard]] std::uint64_t without_tokens() const { return without_tokens_; }

 private:
  struct Rank {
    std::unique_ptr<EnginePublisher> publisher;
    std::unique_ptr<EngineSubscriber> subscriber;
    std::vector<transport::EngineKvEvent> unit;  // scratch of Take
  };
  [[nodiscard]] transport::EngineKvEvent FromEngine(engine::KvEvent&& event) const;
  [[nodiscard]] bool NamesTokens(const engine::KvEvent& event);

  transport::Loop& loop_;
  std::shared_ptr<transport::ZmqContext> context_;
  KvRelay& relay_;
  Options options_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> touched_;  // scratch of Take
  std::uint64_t without_tokens_ = 0;
};

}  // namespace understudy::worker
