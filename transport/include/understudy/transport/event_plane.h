// The event plane: topics that workers publish to. One interface, a wire behind it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/loop.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

class NatsClient;
class ZmqContext;

/// One publisher of one topic. Messages carry its id and a sequence that counts from 0, also over
/// reconnects and over messages that could not be sent. On the loop's thread.
class EventPublisher {
 public:
  virtual ~EventPublisher() = default;

  /// Sends `payload` (msgpack) in an envelope. kUnavailable: the wire is down, the message is lost;
  /// kOverloaded: too much is waiting; kMalformed: longer than the wire takes.
  [[nodiscard]] virtual Status Publish(std::string_view payload) = 0;

  [[nodiscard]] virtual const EventChannel& channel() const = 0;
  /// What discovery is to know about it; nothing where brokers stand between.
  [[nodiscard]] virtual std::optional<Record> record() const = 0;
};

/// What becomes of a message that the wire cannot take now.
enum class Delivery : std::uint8_t {
  kKept,   ///< it waits, within a bound
  kLossy,  ///< it is refused: for topics of which the newest message is all that counts
};

class EventPlane {
 public:
  virtual ~EventPlane() = default;

  /// kUnavailable: no address could be had for it (text names it).
  [[nodiscard]] virtual Result<std::unique_ptr<EventPublisher>> Open(EventChannel channel,
                                                                     Delivery delivery) = 0;

  /// Bytes of a payload that a message can carry; may change with the server.
  [[nodiscard]] virtual std::size_t payload_bytes_max() const = 0;
  [[nodiscard]] virtual EventTransport::Kind kind() const = 0;
};

/// Publishers over `nats`, in the order of their calls. What the connection does not take at once
/// waits, up to kEventsWaitingBytesMax, and is tried again every kEventRetry; a lost link drops it.
inline constexpr std::size_t kEventsWaitingBytesMax = 64U << 20U;
inline constexpr Nanoseconds kEventRetry = std::chrono::milliseconds(1);
[[nodiscard]] std::unique_ptr<EventPlane> NewNatsEventPlane(Loop& loop, NatsClient& nats);

/// Every publisher is a PUB socket on a port that the system chooses; subscribers find it through
/// its record. What one of them does not read in time it misses. With brokers all publishers share
/// one socket for each of them: what is said before it is reached it misses, what is said while it
/// is gone waits within the bounds of its socket, and the others get everything.
struct ZmqEventPlaneOptions {
  std::string bind_host = "0.0.0.0";
  std::string advertised_host;                       ///< where subscribers reach this machine
  std::vector<std::string> brokers;                  ///< XSUB endpoints; empty = direct
  std::size_t broker_unsent_bytes_max = 64U << 20U;  ///< that wait for one broker
};
/// Of one message; the wire itself has no limit.
inline constexpr std::size_t kZmqPayloadBytesMax = 1U << 20U;
[[nodiscard]] std::unique_ptr<EventPlane> NewZmqEventPlane(Loop& loop,
                                                           std::shared_ptr<ZmqContext> context,
                                                           ZmqEventPlaneOptions options);

/// What a subscriber gets of one message: frames topic, publisher, sequence, envelope.
/// kMalformed names what does not fit together.
struct ZmqEventFrames {
  std::uint64_t publisher_id = 0, sequence = 0;
  std::string_view topic, envelope;
};
[[nodiscard]] Result<ZmqEventFrames> ParseZmqEvent(std::span<const std::string_view> frames);

}  // namespace understudy::transport
