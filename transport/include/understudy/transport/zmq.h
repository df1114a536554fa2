// ZMQ sockets on the loop.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace understudy::transport {

/// The library's own thread and all its sockets; one for the process. Sockets keep it alive, so
/// that its end never waits for one that was forgotten. Any thread.
class ZmqContext {
 public:
  [[nodiscard]] static std::shared_ptr<ZmqContext> New();
  virtual ~ZmqContext() = default;
};

/// What waits where, at most. libzmq bounds queues by messages only: the bytes of a receive queue
/// are bounded by `high_water_mark` times the largest message, those to be sent by
/// `unsent_bytes_max`.
struct ZmqLimits {
  int high_water_mark = 100'000;  ///< messages waiting for one peer, in either direction
  /// A peer that sends a larger frame is disconnected by libzmq (and may come back).
  std::size_t message_bytes_max = 16U << 20;
  /// Frames given to Send that libzmq still holds, all peers together.
  std::size_t unsent_bytes_max = 256U << 20;
  /// A lost or refused connection is tried again, doubling from the first to the second.
  std::chrono::milliseconds reconnect_first{100};
  std::chrono::milliseconds reconnect_last{5000};
};

/// Frames of one message, valid during the call. Of a message with more than kZmqFramesMax only
/// these are shown.
using ZmqFrames = std::span<const std::string_view>;
inline constexpr std::size_t kZmqFramesMax = 16;

enum class ZmqSend : std::uint8_t {
  kSent,    ///< libzmq has it (which does not mean that a peer gets it)
  kFull,    ///< nothing was sent: high_water_mark or unsent_bytes_max is reached; try later
  kNoPeer,  ///< nothing was sent: a ROUTER does not know the identity (any more)
};

/// What all sockets have. Members on the loop's thread; none blocks. Destroying one closes it at
/// once, what is unsent is dropped; also from inside its handler.
class ZmqSocket {
 public:
  /// Gets one whole message; on the loop.
  using Handler = std::function<void(ZmqFrames)>;
  virtual ~ZmqSocket() = default;

  /// kInvalidConfig: `<endpoint> failed: <what libzmq says>`.
  virtual Status Bind(const std::string& endpoint) = 0;
  /// Succeeds without a peer: one that comes later, or comes back, is found.
  virtual Status Connect(const std::string& endpoint) = 0;
  /// Undoes a Connect; unknown endpoints are ignored.
  virtual void Disconnect(const std::string& endpoint) = 0;
  /// As bound last, with the port in the place of `*`. Empty before.
  [[nodiscard]] virtual std::string bound_endpoint() const = 0;
  /// Bytes that count against unsent_bytes_max.
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;
};

// The sockets' New: kUnavailable when libzmq has no more of them (descriptors are used up).

/// Messages whose first frame begins with `topic`. Those sent before the connection stands are
/// lost, as are those that a publisher could not keep.
class ZmqSubscriber : public ZmqSocket {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqSubscriber>> New(
      Loop& loop,
      std::shared_ptr<ZmqContext> context,
      const std::string& topic,
      const ZmqLimits& limits,
      Handler handler);
};

/// To every subscriber that stands. One that does not read misses what is beyond its
/// high_water_mark; the others do not wait for it.
class ZmqPublisher : public ZmqSocket {
 public:
  /// That subscribers connect to.
  [[nodiscard]] static Result<std::unique_ptr<ZmqPublisher>> New(
      std::shared_ptr<ZmqContext> context, const ZmqLimits& limits);
  /// That connects to brokers.
  [[nodiscard]] static Result<std::unique_ptr<ZmqPublisher>> NewConnecting(
      Loop& loop, std::shared_ptr<ZmqContext> context, const ZmqLimits& limits);
  virtual ZmqSend Send(ZmqFrames frames) = 0;
};

/// Knows its peers by an identity, the first frame of what it receives and of what it sends.
class ZmqRouter : public ZmqSocket {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqRouter>> New(Loop& loop,
                                                              std::shared_ptr<ZmqContext> context,
                                                              const ZmqLimits& limits,
                                                              Handler handler);
  virtual ZmqSend Send(ZmqFrames frames) = 0;
};

/// Asks and gets any number of answers. What is sent before the connection stands waits for it.
class ZmqDealer : public ZmqSocket {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqDealer>> New(Loop& loop,
                                                              std::shared_ptr<ZmqContext> context,
                                                              const ZmqLimits& limits,
                                                              Handler handler);
  virtual ZmqSend Send(ZmqFrames frames) = 0;
};

}  // namespace understudy::transport
