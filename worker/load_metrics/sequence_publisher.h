// Tells 1.6 routers that a prompt is computed, so that they stop counting it as waiting.
// Source: events.md 7.
#pragma once

#include "understudy/transport/event_plane.h"
#include "worker/metrics/metrics.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::worker {

/// One event per request, at its first token. A hint: a router that misses it takes the first
/// response item. On the loop's thread.
class SequencePublisher {
 public:
  /// Events that wait for Send; more are dropped and counted.
  static constexpr std::size_t kQueueMax = 4096;
  /// Of one ZMQ message; on NATS each event is a message.
  static constexpr std::size_t kEventsPerMessage = 256;

  /// `grouped`: the wire's form with several events in a message (ZMQ).
  SequencePublisher(std::vector<transport::EventPublisher*> publishers,
                    bool grouped,
                    Metrics& metrics)
      : publishers_(std::move(publishers)), grouped_(grouped), metrics_(metrics) {}

  void PromptComputed(std::uint64_t worker_id, std::uint32_t dp_rank, std::string_view request_id);
  /// Sends what was noted since; to be called once per turn of the loop.
  void Send();

 private:
  std::vector<transport::EventPublisher*> publishers_;
  bool grouped_;
  Metrics& metrics_;
  std::vector<std::string> waiting_;  ///< encoded
  std::string payload_;               ///< scratch
};

}  // namespace understudy::worker
