// The call-home response plane: one TCP connection per request, dialled by the worker.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Why a stream ended before Finish completed it.
enum class StreamEnd : std::uint8_t {
  kFinished,       ///< sentinel sent, the peer closed (or did not within kFinWait)
  kStop,           ///< the frontend sent "stop"
  kKill,           ///< the frontend sent "kill"
  kPeerClosed,     ///< FIN or reset before we were done
  kConnectFailed,  ///< never connected
  kProtocolError,  ///< the peer sent something else
  kBacklog,        ///< the peer did not read: kBacklogBytesMax reached
};

/// Worker side of one response connection. All members on the loop's thread.
/// Bytes appended before the connection is up are kept and written with the handshake.
class ResponseStream {
 public:
  static constexpr std::size_t kBacklogBytesMax = 16U << 20;
  static constexpr Nanoseconds kFinWait = std::chrono::seconds(10);
  /// After Finish: how long the peer may take nothing of what is left.
  static constexpr Nanoseconds kUnreadWait = std::chrono::seconds(60);
  static constexpr Nanoseconds kConnectTimeout = std::chrono::seconds(5);

  virtual ~ResponseStream() = default;
  /// Whole frames (codec/two_part); nothing is sent before Flush.
  virtual void Append(std::string_view frames) = 0;
  /// One write of all that was appended (the rest follows when the socket takes it).
  virtual void Flush() = 0;
  /// After the last frame (sentinel included) was appended: flush, wait for the peer's FIN up to
  /// kFinWait, close.
  virtual void Finish() = 0;
  /// Closes now; what was not written is dropped. `on_end` is not called.
  virtual void Abort() = 0;
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
  /// Appended and not sent yet.
  [[nodiscard]] virtual std::size_t unsent() const = 0;
  /// Called from the loop, not from inside a member, whenever all that was flushed is sent: for
  /// long answers that are appended piece by piece.
  virtual void OnSent(std::function<void()> listener) = 0;
};

/// Dials `address` (host:port, [v6]:port, or unbracketed v6:port as a 1.3.0 frontend writes it;
/// TCP_NODELAY). `on_end` is called once, from the loop, never from inside a member; the stream may
/// be destroyed in it.
[[nodiscard]] std::unique_ptr<ResponseStream> DialResponseStream(
    Loop& loop,
    const std::string& address,
    std::function<void(StreamEnd, const std::string& text)> on_end);

/// "host:port" with brackets optional: split at the last colon. kMalformed when there is no port.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] Result<HostPort> ParseHostPort(std::string_view address);

/// Frontend side, for `understudy call` and tests: accepts connections and hands over their bytes.
class ResponseListener {
 public:
  struct Peer {
    std::uint64_t connection = 0;
    std::string_view bytes;  ///< as they came, frames cut anywhere; empty = the peer closed
  };
  virtual ~ResponseListener() = default;
  [[nodiscard]] virtual std::string address() const = 0;  ///< host:port that workers dial
  virtual void Send(std::uint64_t connection, std::string_view bytes) = 0;
  virtual void CloseConnection(std::uint64_t connection) = 0;
};
[[nodiscard]] Result<std::unique_ptr<ResponseListener>> ListenForResponses(
    Loop& loop,
    const std::string& host,
    std::function<void(const ResponseListener::Peer&)> on_bytes);

}  // namespace understudy::transport
