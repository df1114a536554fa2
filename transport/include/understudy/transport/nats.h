// A NATS connection on the loop, with a reconnect of our own.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Source: dynamo-runtime 1.3.0 transports/nats.rs; wire.md 1.1. TLS, nkeys and credential files
/// are not built yet.
struct NatsOptions {
  std::string url = "nats://localhost:4222";  ///< NATS_SERVER; one or several, separated by commas
  std::optional<std::string> user;            ///< with `password`: priority 1
  std::optional<std::string> password;
  std::optional<std::string> token;  ///< priority 2; an empty token counts as set
  std::string name = "understudy";   ///< connection name that the server's monitoring shows
  Nanoseconds connect_timeout = std::chrono::seconds(2);
};

/// The same addresses without what stands before an '@': for logs and errors.
[[nodiscard]] std::string WithoutCredentials(std::string_view urls);

struct NatsMessage {
  std::string_view subject;
  std::string_view reply;  ///< empty: no answer expected
  std::span<const std::byte> payload;
  std::function<std::optional<std::string>(const char* name)> header;  ///< valid during the call
};

/// One logical connection: links come and go, subscriptions stay. All members on the loop's thread,
/// none blocks.
class NatsClient {
 public:
  using Handler = std::function<void(const NatsMessage&)>;
  using SubscriptionId = std::uint32_t;
  /// Text of one connection attempt that failed, or that the link dropped / came (back) up.
  enum class Event : std::uint8_t { kConnected, kDropped, kConnectFailed };

  /// A backlog that was not written yet; more is refused with kOverloaded. Source: platform.md 3.1.
  static constexpr int kBacklogBytesMax = 1 << 20;

  [[nodiscard]] static std::unique_ptr<NatsClient> New(Loop& loop, NatsOptions options);
  virtual ~NatsClient() = default;

  /// First attempt; `done` gets its outcome once. kInvalidConfig: refused for good (bad URL,
  /// authorization violation); kUnavailable: not reachable. After a success, lost links are
  /// replaced for ever, with a bounded back-off.
  virtual void Start(std::function<void(Status)> done) = 0;
  virtual void OnEvent(std::function<void(Event, const std::string&)> listener) = 0;

  /// Kept over reconnects. Refuses (0) an empty subject or one with white space.
  virtual SubscriptionId Subscribe(const std::string& subject,
                                   const std::string& queue,
                                   Handler handler) = 0;
  /// No handler runs afterwards; messages on their way are lost.
  virtual void Unsubscribe(SubscriptionId id) = 0;
  /// The server sends nothing more; what it has sent already is still handled, then the
  /// subscription is gone and `done` runs, after kRetireLimit or the loss of the link at the
  /// latest. Never from within this call.
  static constexpr Nanoseconds kRetireLimit = std::chrono::seconds(1);
  virtual void Retire(SubscriptionId id, std::function<void()> done) = 0;

  /// kUnavailable while down, kOverloaded at kBacklogBytesMax, kMalformed for a bad subject or a
  /// payload over max_payload. With `reply` and nobody listening, the subscription that covers
  /// `reply` gets an empty message with the header Status "503"; its subject is the subscription's
  /// own, so subscribe to each reply subject by itself to know which question it answers.
  virtual Status Publish(const std::string& subject,
                         std::span<const std::byte> payload,
                         const std::string& reply = {}) = 0;

  /// Runs `done` when the server has processed all that was sent before (a round trip); kTimeout
  /// after `limit`.
  virtual void Flush(Nanoseconds limit, std::function<void(Status)> done) = 0;

  /// A fresh subject for answers to this connection only.
  [[nodiscard]] virtual std::string NewInbox() = 0;
  [[nodiscard]] virtual bool connected() const = 0;
  /// Bytes; as announced by the server last connected to (1 MiB before the first link).
  [[nodiscard]] virtual std::int64_t payload_bytes_max() const = 0;
  /// Messages that the library dropped because the loop did not drain a subscription in time.
  [[nodiscard]] virtual std::uint64_t messages_dropped() const = 0;

  /// Writes what is buffered (bounded by `limit`), closes the link, then runs `done`. No handler
  /// runs afterwards.
  virtual void Close(Nanoseconds limit, std::function<void()> done) = 0;
};

}  // namespace understudy::transport
