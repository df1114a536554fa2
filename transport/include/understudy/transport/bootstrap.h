// Connections of the rendezvous: the prefill side listens, the decode side dials.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/task.h"
#include "understudy/transport/bootstrap_frame.h"
#include "understudy/transport/loop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace understudy::transport {

/// One end of a registered connection. All members on the loop's thread. Destroying it closes the
/// connection at once; what was not written is lost.
class BootstrapConnection {
 public:
  /// Frames that wait to be written.
  static constexpr std::size_t kFramesWaitingMax = 32;
  /// How long a connect may take, and how long the first of the waiting frames may wait to be
  /// written.
  static constexpr Nanoseconds kConnectTimeout = std::chrono::seconds(30);
  static constexpr Nanoseconds kSendTimeout = std::chrono::seconds(30);

  virtual ~BootstrapConnection() = default;
  [[nodiscard]] virtual const BootstrapIdentity& identity() const = 0;

  struct Handlers {
    std::function<void(BootstrapMessage)> on_message;
    /// The peer closed (Status ok), or why the connection ended; nothing comes after it. A frame
    /// that makes no sense (kMalformed) ends only what is read: the peer can still be told, and a
    /// second call says when that failed.
    std::function<void(Status)> on_end;
  };
  /// Begins to deliver what the peer sends; until then it stays with the kernel. Handlers are
  /// called from the loop, never from inside a member; the connection may be destroyed in them.
  virtual void Start(Handlers handlers) = 0;

  /// Queues one message. kMalformed: too long; kOverloaded: kFramesWaitingMax wait already;
  /// kUnavailable: it has ended. `written` is called when the kernel has all of it.
  [[nodiscard]] virtual Status Send(const BootstrapMessage& message, Task written) = 0;
  [[nodiscard]] Status Send(const BootstrapMessage& message) { return Send(message, Task()); }

  /// Before Start: the peer has closed (or reset) its end. False while something of it is unread.
  [[nodiscard]] virtual bool PeerClosed() = 0;
};

/// A peer that has registered.
struct BootstrapIncoming {
  BootstrapIdentity identity;
  BootstrapRegister registration;
  std::unique_ptr<BootstrapConnection> connection;  ///< not started
};

/// Monotonic, on the loop's thread.
struct BootstrapListenerCounts {
  std::uint64_t accepted_total = 0;
  std::uint64_t registered_total = 0;
  std::uint64_t refused_total = 0;        ///< answered Overloaded
  std::uint64_t dropped_total = 0;        ///< closed unread: a refusal was under way already
  std::uint64_t bad_total = 0;            ///< header, frame or first message was wrong
  std::uint64_t cut_off_total = 0;        ///< closed by the peer before it registered
  std::uint64_t timed_out_total = 0;      ///< did not register in time
  std::uint64_t accept_errors_total = 0;  ///< each followed by a pause of kAcceptPause
};

/// Accepts connections and reads their registration. Destroying it closes the port, half-open
/// connections and registered ones that nobody took.
class BootstrapListener {
 public:
  static constexpr Nanoseconds kAcceptPause = std::chrono::milliseconds(10);

  struct Options {
    std::string host = "0.0.0.0";
    std::uint16_t port = 0;  ///< 0 = any free one
    /// Connections that have not registered yet, and again as many that have and were not taken.
    /// Beyond them a peer is answered Overloaded, one at a time, and further ones are closed.
    std::size_t pending_max = 256;
    Nanoseconds registration_timeout = std::chrono::seconds(30);
    Nanoseconds send_timeout = BootstrapConnection::kSendTimeout;
  };

  virtual ~BootstrapListener() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// From now on each registered peer is given to `incoming`, those that wait first; from the loop,
  /// never from inside a member. Once.
  virtual void Take(std::function<void(BootstrapIncoming)> incoming) = 0;
  [[nodiscard]] virtual const BootstrapListenerCounts& counts() const = 0;
};

/// Errors: kInvalidConfig (`pending_max` 0, no IP address), kUnavailable with the text of the
/// operating system, e.g. `Address already in use (os error 98)`.
[[nodiscard]] Result<std::unique_ptr<BootstrapListener>> ListenForBootstrap(
    Loop& loop, const BootstrapListener::Options& options);

struct BootstrapTarget {
  std::string host;  ///< name or address, IPv6 with or without brackets
  std::uint16_t port = 0;
  Nanoseconds connect_timeout = BootstrapConnection::kConnectTimeout;
  Nanoseconds send_timeout = BootstrapConnection::kSendTimeout;
};
/// host:port, IPv6 in brackets.
[[nodiscard]] std::string AddressText(const BootstrapTarget& target);

/// Connects and registers. `on_open` is called once, from the loop: ok when header and registration
/// were written, else why not: a text of the operating system, `bootstrap connect timeout to
/// {address}`, `bootstrap header send timed out`, `bootstrap send timed out`. The connection may be
/// destroyed in it, and before.
[[nodiscard]] std::unique_ptr<BootstrapConnection> DialBootstrap(
    Loop& loop,
    const BootstrapTarget& target,
    const BootstrapIdentity& identity,
    const BootstrapRegister& registration,
    std::function<void(Status)> on_open);

}  // namespace understudy::transport
