// What an engine of ours says about its KV cache, on ZMQ sockets of its own.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"
#include "worker/kv_relay/batch_ring.h"
#include "worker/kv_relay/replay_server.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace understudy::worker {

/// One data-parallel rank: a PUB socket at the base port + rank, and a replay socket if wanted.
/// Frames: topic, sequence from 0 (8 bytes, big-endian), batch. On the loop's thread; nothing
/// blocks. Source: events.md 1.7, 1.8.
class EnginePublisher {
 public:
  struct Options {
    DpRank dp_rank{};
    std::string host = "0.0.0.0";
    std::uint16_t port = 0;  ///< base port + rank; 0: the system chooses
    std::optional<std::uint16_t> replay_port;
    std::string topic;
    transport::ZmqLimits zmq_limits;
    BatchRing::Limits ring_limits;
  };
  struct Counters {
    std::uint64_t batches = 0;
    std::uint64_t bytes = 0;
    /// Not sent live, because libzmq held too many bytes; the number is used, so that readers see
    /// a gap and ask.
    std::uint64_t refused = 0;
  };

  /// kInvalidConfig: `ZMQ PUB bind to tcp://<host>:<port> failed: <why>` (or ROUTER).
  [[nodiscard]] static Result<std::unique_ptr<EnginePublisher>> New(
      transport::Loop& loop, std::shared_ptr<transport::ZmqContext> context, Options options);

  /// What happened at one boundary of the engine, as one message; nothing when it is empty.
  /// `timestamp_s`: Unix time.
  void Publish(std::span<const transport::EngineKvEvent> events, double timestamp_s);

  [[nodiscard]] std::string endpoint() const { return publisher_->bound_endpoint(); }
  [[nodiscard]] const ReplayServer* replay() const { return replay_.get(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  explicit EnginePublisher(Options options)
      : options_(std::move(options)), ring_(options_.ring_limits) {}

  Options options_;
  std::uint64_t next_sequence_ = 0;
  Counters counters_;
  BatchRing ring_;
  std::unique_ptr<transport::ZmqPublisher> publisher_;
  std::unique_ptr<ReplayServer> replay_;
};

}  // namespace understudy::worker
