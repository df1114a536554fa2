// KV events into a JetStream stream: the durable mode of 1.3. Source: events.md 3.2.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/records.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace understudy::transport {

/// `namespace-<ns>-component-<component>-kv-events`, in characters that a stream may have.
[[nodiscard]] std::string KvStreamName(const EndpointName& place);

/// Publishes payloads as they are (JSON, no envelope) to `<stream>.kv-events`, in order. Each is
/// kept until the server has acknowledged it and sent again after a lost link: no router could ask
/// for it. A router may then see events twice, in an order that leads to the same end. On the
/// loop's thread; no record belongs to it.
class DurableEvents : public EventPublisher {
 public:
  static constexpr std::size_t kWaitingBytesMax = 64U << 20U;  ///< not acknowledged
  static constexpr std::size_t kInFlightMax = 4096;            ///< sent and not acknowledged
  static constexpr Nanoseconds kAnswerLimit = std::chrono::seconds(5);
  static constexpr Nanoseconds kRetry = std::chrono::seconds(1);

  /// Makes the stream unless it is there. kInvalidConfig: the server has no JetStream, or refuses;
  /// kTimeout, kUnavailable.
  virtual void Open(std::function<void(Status)> done) = 0;
  /// After a reconnect: sends again what was not acknowledged.
  virtual void Resend() = 0;
  [[nodiscard]] virtual std::size_t unacknowledged() const = 0;
  /// Told of refusals by the server, once per episode.
  virtual void OnProblem(std::function<void(const std::string&)> listener) = 0;
};
[[nodiscard]] std::unique_ptr<DurableEvents> NewDurableEvents(Loop& loop,
                                                              NatsClient& nats,
                                                              const EndpointName& place,
                                                              std::uint64_t max_age_s);

}  // namespace understudy::transport
