// Bytes of one rendezvous connection: read when asked for, written from a bounded queue.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/task.h"
#include "understudy/transport/bootstrap.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {

/// An errno as Rust programs show it: Connection refused (os error 111).
[[nodiscard]] std::string OsErrorText(int error);

/// Shared with pending handlers of asio, which outlive the owner by a loop turn.
class BootstrapSocket : public std::enable_shared_from_this<BootstrapSocket> {
 public:
  struct Handlers {
    /// After bytes came: erase what was understood from `in`. After an error nothing is read any
    /// more; on_end hears it.
    std::function<Status(std::string& in)> on_bytes;
    /// The peer closed (ok), or why it ended. Once; but after an error of on_bytes the socket still
    /// writes, and a second call tells when that fails.
    std::function<void(Status)> on_end;
  };

  /// `quick_ack`: say at once that something was received, for peers that wait for it between two
  /// writes.
  BootstrapSocket(asio::io_context& context,
                  asio::ip::tcp::socket socket,
                  Nanoseconds send_timeout,
                  bool quick_ack);

  /// Reads until Pause. Bytes that were left over come first. Handlers are called from the loop.
  void Read(Handlers handlers);
  /// From inside on_bytes: no handler is called any more, what is left of `in` is kept.
  void Pause();
  [[nodiscard]] bool PeerClosed();

  /// The text of the error is the one of the reference's queue.
  [[nodiscard]] Status Write(std::string bytes, Task written);
  void Close();

  [[nodiscard]] bool closed() const { return closed_; }
  /// Bytes of the frame that is being written, that the kernel has.
  [[nodiscard]] std::size_t sent_of_first() const { return sent_; }
  [[nodiscard]] asio::ip::tcp::socket& native() { return socket_; }

 private:
  struct Frame {
    std::string bytes;
    Task written;
  };

  void AwaitReadable();
  void OnReadable();
  bool HandOver();
  void EndReading(Status why);
  void Flush();
  void AwaitWritable();
  void End(Status why);
  void DropUnread();

  asio::io_context& context_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer send_timer_;
  const Nanoseconds send_timeout_;
  const bool quick_ack_;
  std::shared_ptr<Handlers> handlers_;  ///< shared: one may be running when it is replaced
  std::string in_;
  std::deque<Frame> out_;
  std::size_t sent_ = 0;  ///< of out_.front()
  std::uint64_t timer_generation_ = 0;
  bool send_timer_armed_ = false;
  bool read_waiting_ = false;
  bool reading_over_ = false;
  bool write_waiting_ = false;
  bool ending_ = false;
  bool closed_ = false;
  std::optional<Status> ended_;  ///< while nobody listened
};

}  // namespace understudy::transport
