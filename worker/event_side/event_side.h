// All that a worker process says besides its response streams: KV events, loads, passes, computed
// prompts; in the form of each release served.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/types.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "worker/config/release_profile.h"
#include "worker/event_side/kv_publishers.h"
#include "worker/kv_relay/engine_outlets.h"
#include "worker/kv_relay/relay.h"
#include "worker/load_metrics/forward_pass_publisher.h"
#include "worker/load_metrics/load_publisher.h"
#include "worker/load_metrics/sequence_publisher.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// On the loop's thread.
class EventSide {
 public:
  struct Options {
    bool kv_events = true;
    bool forward_passes = true;
    bool computed_prompts = true;  ///< not of prefill workers
    BatchingOptions batching;
    /// Takes KV events instead of the event plane (durable mode), as JSON; queries are not answered
    /// then.
    transport::EventPublisher* durable = nullptr;
    /// One for each worker, in their order: its KV events go through sockets of its engine. Empty:
    /// they stay inside the process.
    std::vector<EnginePorts> engine_ports;
    std::shared_ptr<transport::ZmqContext> zmq;  ///< for them
    std::uint32_t block_size = 0;                ///< tokens
  };

  /// `plane` and `profile` outlive it.
  EventSide(transport::Loop& loop,
            transport::EventPlane& plane,
            const Clock& clock,
            Metrics& metrics,
            const ReleaseProfile& profile,
            transport::EndpointName endpoint,
            const Options& options);

  /// Opens the publishers of the process. kUnavailable as from the plane.
  [[nodiscard]] Status Open();
  /// Opens those of a worker's ranks, which are the next ones. After Open. A rank without a
  /// publisher of KV events costs a line in the log.
  void AddWorker(std::uint64_t instance_id, std::uint32_t dp_size, EndpointProbe* probe);
  /// What discovery is to know of the publishers.
  [[nodiscard]] std::vector<transport::Record> ChannelRecords() const;
  /// Those that can be asked for what a router missed.
  [[nodiscard]] const std::vector<KvSource>& sources() const { return sources_; }
  [[nodiscard]] KvRelay& relay() { return *relay_; }
  /// Of the engines' sockets, as Prometheus text; empty without them.
  [[nodiscard]] std::string EngineMetrics() const;
  [[nodiscard]] LoadPublisher& load() { return *load_; }
  /// Heartbeats begin.
  void Start();

  void OnKvEvents(std::vector<engine::KvEvent> events);
  void OnPassBatch(const engine::PassBatch& batch);
  void PromptComputed(RankIndex rank, std::string_view request_id);
  /// After what belongs together; sends what was held back for it.
  void EndTurn();
  /// After a reconnect of the wire.
  void SayAllAgain();
  /// Sends what is held back now; nothing is sent afterwards.
  void Stop();

 private:
  struct RankName {
    std::uint64_t worker_id = 0;
    std::uint32_t dp_rank = 0;
  };
  /// The new publisher, or the reason why there is none. Kept here.
  [[nodiscard]] Result<transport::EventPublisher*> OpenOne(const ReleaseWire& wire,
                                                           const char* topic,
                                                           transport::Delivery delivery);
  void AddRank(std::uint64_t worker_id, std::uint32_t dp_rank);
  void AddKvRank(RankIndex rank, std::uint64_t worker_id, std::uint32_t dp_rank);
  [[nodiscard]] std::vector<KvOutput> OpenKvOutputs(RankIndex rank,
                                                    std::uint64_t worker_id,
                                                    std::uint32_t dp_rank);

  transport::Loop& loop_;
  transport::EventPlane& plane_;
  const Clock& clock_;
  Metrics& metrics_;
  const ReleaseProfile& profile_;
  transport::EndpointName endpoint_;
  Options options_;
  std::vector<std::unique_ptr<transport::EventPublisher>> publishers_;
  std::vector<RankName> ranks_;
  std::vector<KvSource> sources_;
  std::unique_ptr<KvRelay> relay_;
  std::unique_ptr<EngineOutlets> outlets_;  // after the relay, which it feeds
  std::vector<std::uint64_t> workers_;
  std::unique_ptr<LoadPublisher> load_;
  std::unique_ptr<ForwardPassPublisher> passes_;
  std::unique_ptr<SequencePublisher> sequences_;
  bool stopped_ = false;
};

}  // namespace understudy::worker
