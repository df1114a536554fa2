#include "transport/tcp/bootstrap_socket.h"

#include <array>
#include <cerrno>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <asio/post.hpp>

namespace understudy::transport {
namespace {

using asio::ip::tcp;
constexpr std::size_t kReadBytes = 16U << 10;
constexpr int kUnreadReadsMax = 8;
constexpr int kReadsMax = 8;  // per wake, so that a peer that floods cannot hold the loop

Status OsError(int error) {
  return Fail(Errc::kUnavailable, OsErrorText(error));
}

}  // namespace

std::string OsErrorText(int error) {
  return std::generic_category().message(error) + " (os error " + std::to_string(error) + ")";
}

BootstrapSocket::BootstrapSocket(asio::io_context& context,
                                 tcp::socket socket,
                                 Nanoseconds send_timeout,
                                 bool quick_ack)
    : context_(context),
      socket_(std::move(socket)),
      send_timer_(context),
      send_timeout_(send_timeout),
      quick_ack_(quick_ack) {}

void BootstrapSocket::Read(Handlers handlers) {
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  asio::post(context_, [self = shared_from_this()] {
    if (self->ended_ && self->handlers_) {
      const auto reader = std::exchange(self->handlers_, nullptr);
      reader->on_end(*self->ended_);
    } else if (!self->closed_ && self->handlers_ && (self->in_.empty() || self->HandOver())) {
      self->AwaitReadable();
    }
  });
}

void BootstrapSocket::Pause() {
  handlers_.reset();
}

bool BootstrapSocket::PeerClosed() {
  char byte = 0;
  const auto n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

void BootstrapSocket::AwaitReadable() {
  if (std::exchange(read_waiting_, true)) {
    return;
  }
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](asio::error_code error) {
    self->read_waiting_ = false;
    if (!error && !self->closed_ && self->handlers_ && !self->reading_over_) {
      self->OnReadable();
    }
  });
}

void BootstrapSocket::OnReadable() {
  std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const auto n = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    }
    if (n < 0) {
      End(OsError(errno));
      return;
    }
    if (n == 0) {
      End(in_.empty() ? Status() : Fail(Errc::kTruncated, "bytes remaining on stream"));
      return;
    }
    if (quick_ack_) {  // the kernel forgets it after each read
      const int on = 1;
      ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
    }
    in_.append(buffer.data(), static_cast<std::size_t>(n));
    if (!HandOver()) {
      return;
    }
  }
  AwaitReadable();
}

/// True when reading goes on.
bool BootstrapSocket::HandOver() {
  const auto handlers = handlers_;
  if (Status status = handlers->on_bytes(in_); !status) {
    EndReading(std::move(status));
    return false;
  }
  return !closed_ && !ending_ && handlers_ == handlers;
}

/// The peer does not make sense, but it is there and may be told so.
void BootstrapSocket::EndReading(Status why) {
  reading_over_ = true;
  in_.clear();
  asio::post(context_, [self = shared_from_this(), why = std::move(why)] {
    if (const auto handlers = self->handlers_; handlers && !self->closed_) {
      handlers->on_end(why);
    }
  });
}

Status BootstrapSocket::Write(std::string bytes, Task written) {
  if (closed_ || ending_) {
    return Fail(Errc::kUnavailable, "channel closed");
  }
  if (out_.size() >= BootstrapConnection::kFramesWaitingMax) {
    return Fail(Errc::kOverloaded, "no available capacity");
  }
  out_.push_back({std::move(bytes), std::move(written)});
  if (!write_waiting_) {
    Flush();
  }
  return {};
}

void BootstrapSocket::Flush() {
  while (!out_.empty() && !closed_ && !ending_) {
    Frame& frame = out_.front();
    const auto n = ::send(socket_.native_handle(),
                          frame.bytes.data() + sent_,
                          frame.bytes.size() - sent_,
                          MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      AwaitWritable();
      return;
    }
    if (n < 0) {
      End(OsError(errno));
      return;
    }
    sent_ += static_cast<std::size_t>(n);
    if (sent_ < frame.bytes.size()) {
      continue;
    }
    if (frame.written) {
      asio::post(context_, std::move(frame.written));
    }
    out_.pop_front();
    sent_ = 0;
    send_timer_armed_ = false;  // each frame has its own time
    ++timer_generation_;
    send_timer_.cancel();
  }
}

void BootstrapSocket::AwaitWritable() {
  write_waiting_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](asio::error_code error) {
    self->write_waiting_ = false;
    if (!error) {
      self->Flush();
    }
  });
  if (std::exchange(send_timer_armed_, true)) {
    return;
  }
  send_timer_.expires_after(send_timeout_);
  send_timer_.async_wait(
      [self = shared_from_this(), generation = ++timer_generation_](asio::error_code error) {
        if (!error && !self->closed_ && self->timer_generation_ == generation) {
          self->End(Fail(Errc::kTimeout, "bootstrap send timed out"));
        }
      });
}

/// Later, so that nobody is called from inside one of their own calls.
void BootstrapSocket::End(Status why) {
  if (closed_ || std::exchange(ending_, true)) {
    return;
  }
  asio::post(context_, [self = shared_from_this(), why = std::move(why)] {
    if (self->closed_) {
      return;
    }
    const auto handlers = self->handlers_;
    self->Close();
    if (handlers) {
      handlers->on_end(why);
    } else {
      self->ended_ = why;
    }
  });
}

/// The kernel answers a close with a reset when something is unread; the peer would be told of a
/// fault instead of the end.
void BootstrapSocket::DropUnread() {
  std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kUnreadReadsMax && socket_.is_open(); ++reads) {
    if (::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT) <= 0) {
      return;
    }
  }
}

void BootstrapSocket::Close() {
  if (!closed_) {
    DropUnread();
  }
  closed_ = true;
  handlers_.reset();
  asio::error_code ignored;
  send_timer_.cancel();
  socket_.close(ignored);
  out_.clear();
  in_.clear();
}

}  // namespace understudy::transport
