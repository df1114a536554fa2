// Engines that tell of their caches at a given rate, as vLLM does: PUB and replay socket per rank.
#pragma once

#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"
#include "worker/kv_relay/engine_publisher.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace understudy::relayload {

struct EnginesOptions {
  std::uint16_t base_port = 0;    ///< of the first rank of the first engine; then side by side
  std::uint16_t replay_base = 0;  ///< 0: no replay sockets
  std::uint32_t engines = 1, ranks = 1;
  std::uint32_t blocks_per_batch = 8, block_size = 16;
  std::uint32_t blocks_held = 512;  ///< by a rank; then each stored block removes the oldest
};

/// Every block has a name of its own: 1, 2, 3 ... in the order of their batches, over all engines.
/// On the loop's thread.
class Engines {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Engines>> New(
      transport::Loop& loop,
      std::shared_ptr<transport::ZmqContext> context,
      const EnginesOptions& options);

  /// The next rank in turn stores blocks (and removes as many, when it is full): one batch.
  void PublishBatch();

  [[nodiscard]] std::uint64_t blocks_stored() const { return last_block_; }
  [[nodiscard]] std::uint64_t blocks_removed() const { return removed_; }
  [[nodiscard]] std::uint64_t batches() const { return batches_; }

 private:
  explicit Engines(const EnginesOptions& options) : options_(options) {}
  struct Rank {
    std::unique_ptr<worker::EnginePublisher> publisher;
    std::deque<std::uint64_t> held;
  };

  EnginesOptions options_;
  std::vector<Rank> ranks_;
  std::size_t turn_ = 0;
  std::uint64_t last_block_ = 0, removed_ = 0, batches_ = 0;
};

}  // namespace understudy::relayload
