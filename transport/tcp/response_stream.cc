#include "understudy/transport/response_stream.h"

#include "transport/loop/native.h"
#include "understudy/base/assert.h"
#include "understudy/transport/codec.h"

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {
namespace {

using asio::ip::tcp;

constexpr std::size_t kControlBytesMax = 4096;  // the peer only ever sends short control frames
constexpr Nanoseconds kAddressRetry = std::chrono::milliseconds(200);
constexpr std::size_t kKeepCapacityBytes = 64U
                                           << 10;  // a larger buffer is given back once it is empty
constexpr std::size_t kCompactBytes =
    1U << 20;  // a slow reader's buffer may never empty: from here on, what was sent is cut off
constexpr int kReadsMax = 16;  // per wake, so that a peer that floods cannot hold the loop

/// The state, shared with pending asio handlers, which outlive the owner by a loop turn.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnEnd = std::function<void(StreamEnd, const std::string&)>;

  Connection(asio::io_context& context, OnEnd on_end)
      : context_(context),
        socket_(context),
        timer_(context),
        resolver_(context),
        on_end_(std::move(on_end)) {}

  void Dial(const std::string& address) {
    auto parsed = ParseHostPort(address);
    if (!parsed) {
      End(StreamEnd::kConnectFailed, parsed.error().message);
      return;
    }
    address_ = address;
    ArmTimer(ResponseStream::kConnectTimeout,
             [this] { End(StreamEnd::kConnectFailed, address_ + ": connect timed out"); });
    asio::error_code error;
    const auto literal = asio::ip::make_address(parsed->host, error);
    if (!error) {
      Connect(tcp::endpoint(literal, parsed->port));
      return;
    }
    resolver_.async_resolve(
        parsed->host,
        std::to_string(parsed->port),
        [self = shared_from_this()](asio::error_code failure,
                                    const tcp::resolver::results_type& results) {
          if (self->ended_) {
            return;
          }
          if (failure || results.empty()) {
            self->End(StreamEnd::kConnectFailed, self->address_ + ": " + failure.message());
            return;
          }
          for (const auto& result : results) {
            self->others_.push_back(result.endpoint());
          }
          self->ConnectNext({});
        });
  }

  void Append(std::string_view frames) {
    if (ended_) {
      return;
    }
    if (out_.size() - sent_ + frames.size() > ResponseStream::kBacklogBytesMax) {
      End(StreamEnd::kBacklog,
          address_ + ": the peer does not read, " + std::to_string(out_.size() - sent_) +
              " bytes are waiting");
      return;
    }
    out_.append(frames);
  }

  void Flush() {
    if (!connected_ || ended_ || write_waiting_) {
      return;
    }
    while (sent_ < out_.size()) {
      const auto n = ::send(socket_.native_handle(),
                            out_.data() + sent_,
                            out_.size() - sent_,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) {
        if (errno == EINTR) {
          continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
          AwaitWritable();
          if (finishing_) {  // anew after each piece that the peer took
            ArmTimer(ResponseStream::kUnreadWait, [this] {
              End(StreamEnd::kBacklog, address_ + ": the peer stays connected and does not read");
            });
          }
          return;
        }
        End(StreamEnd::kPeerClosed,
            address_ + ": write failed: " + std::generic_category().message(errno));
        return;
      }
      sent_ += static_cast<std::size_t>(n);
      bytes_sent_ += static_cast<std::uint64_t>(n);
      if (sent_ >= kCompactBytes && sent_ >= out_.size() / 2 && sent_ < out_.size()) {
        out_.erase(0, sent_);
        sent_ = 0;
      }
    }
    sent_ = 0;
    out_.clear();
    if (out_.capacity() > kKeepCapacityBytes) {
      std::string().swap(out_);
    }
    if (on_sent_ && !finishing_) {
      asio::post(context_, [self = shared_from_this()] {
        if (const auto call = self->on_sent_; call && !self->ended_) {
          call();  // a copy: the listener may be replaced by itself
        }
      });
    }
    if (finishing_ && !fin_armed_) {
      fin_armed_ = true;
      ArmTimer(ResponseStream::kFinWait,
               [this] { End(StreamEnd::kFinished, "no FIN from the peer"); });
    }
  }

  void Finish() {
    finishing_ = true;
    Flush();
  }

  void Abort() {
    on_end_ = nullptr;
    on_sent_ = nullptr;
    Close();
  }

  void OnSent(std::function<void()> listener) { on_sent_ = std::move(listener); }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }
  [[nodiscard]] std::size_t unsent() const { return out_.size() - sent_; }

 private:
  /// A name may have several addresses ("localhost": ::1 and 127.0.0.1), of which the peer listens
  /// on one.
  void ConnectNext(asio::error_code last) {
    if (others_.empty()) {
      End(StreamEnd::kConnectFailed, address_ + ": " + last.message());
      return;
    }
    const auto endpoint = others_.front();
    others_.pop_front();
    asio::error_code ignored;
    socket_.close(ignored);
    Connect(endpoint);
  }

  void Connect(const tcp::endpoint& endpoint) {
    asio::error_code error;
    socket_.open(endpoint.protocol(), error);
    if (error) {
      ConnectNext(error);
      return;
    }
    socket_.set_option(tcp::no_delay(true), error);
    socket_.async_connect(endpoint,
                          [self = shared_from_this(), endpoint](asio::error_code failure) {
                            if (self->ended_) {
                              return;
                            }
                            if (failure.value() == EADDRNOTAVAIL) {
                              self->RetryConnect(endpoint);  // out of local ports: some come back
                                                             // soon; bounded by the connect timeout
                              return;
                            }
                            if (failure) {
                              self->ConnectNext(failure);
                              return;
                            }
                            self->Connected();
                          });
  }

  void RetryConnect(const tcp::endpoint& endpoint) {
    asio::error_code ignored;
    socket_.close(ignored);
    auto delay = std::make_shared<asio::steady_timer>(context_, kAddressRetry);
    delay->async_wait([self = shared_from_this(), delay, endpoint](asio::error_code) {
      if (!self->ended_) {
        self->Connect(endpoint);
      }
    });
  }

  void Connected() {
    connected_ = true;
    timer_.cancel();
    ++timer_generation_;
    ArmRead();
    Flush();
  }

  void ArmRead() {
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](asio::error_code error) {
      if (!error && !self->ended_) {
        self->Read();
      }
    });
  }

  void Read() {
    std::array<char, kControlBytesMax> buffer;
    for (int reads = 0; !ended_; ++reads) {
      if (reads == kReadsMax) {
        ArmRead();
        return;
      }
      const auto n = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        ArmRead();
        return;
      }
      if (n <= 0) {
        const auto text = n == 0 ? std::string("the peer closed the connection")
                                 : "read failed: " + std::generic_category().message(errno);
        const bool complete = finishing_ && sent_ == out_.size();
        End(complete ? StreamEnd::kFinished : StreamEnd::kPeerClosed, address_ + ": " + text);
        return;
      }
      in_.append(buffer.data(), static_cast<std::size_t>(n));
      ParseControls();
    }
  }

  void ParseControls() {
    while (!ended_ && !in_.empty()) {
      auto frame = ParseTwoPart(in_, kControlBytesMax);
      if (!frame) {
        if (frame.error().code != Errc::kTruncated || in_.size() > kControlBytesMax) {
          End(StreamEnd::kProtocolError, address_ + ": " + frame.error().message);
        }
        return;
      }
      const auto control = ParseStreamControl(*frame);
      if (!control) {
        End(StreamEnd::kProtocolError, address_ + ": " + control.error().message);
        return;
      }
      in_.erase(0, frame->frame_bytes);
      if (finishing_) {
        continue;  // a late stop or kill changes nothing: everything was said
      }
      if (*control == StreamControl::kSentinel) {
        End(StreamEnd::kProtocolError, address_ + ": unexpected sentinel from the frontend");
        return;
      }
      End(*control == StreamControl::kStop ? StreamEnd::kStop : StreamEnd::kKill, "");
    }
  }

  void AwaitWritable() {
    write_waiting_ = true;
    socket_.async_wait(tcp::socket::wait_write,
                       [self = shared_from_this()](asio::error_code error) {
                         self->write_waiting_ = false;
                         if (!error && !self->ended_) {
                           self->Flush();
                         }
                       });
  }

  template <class F>
  void ArmTimer(Nanoseconds delay, F action) {
    const auto generation = ++timer_generation_;
    timer_.expires_after(delay);
    timer_.async_wait([self = shared_from_this(), generation, action](asio::error_code error) {
      if (!error && !self->ended_ && self->timer_generation_ == generation) {
        action();
      }
    });
  }

  void End(StreamEnd end, std::string text) {
    if (ended_) {
      return;
    }
    Close();
    asio::post(context_, [self = shared_from_this(), end, text = std::move(text)] {
      if (auto call = std::exchange(self->on_end_, nullptr)) {
        call(end, text);
      }
    });
  }

  void Close() {
    ended_ = true;
    asio::error_code ignored;
    timer_.cancel();
    resolver_.cancel();
    socket_.close(ignored);
    std::string().swap(out_);
    std::string().swap(in_);
    sent_ = 0;
  }

  asio::io_context& context_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  tcp::resolver resolver_;
  std::deque<tcp::endpoint> others_;  ///< still to try
  OnEnd on_end_;
  std::function<void()> on_sent_;
  std::string address_;
  std::string out_, in_;
  std::size_t sent_ = 0;
  std::uint64_t bytes_sent_ = 0, timer_generation_ = 0;
  bool connected_ = false, ended_ = false, finishing_ = false, fin_armed_ = false,
       write_waiting_ = false;
};

class Stream final : public ResponseStream {
 public:
  explicit Stream(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Stream() override { connection_->Abort(); }
  void Append(std::string_view frames) override { connection_->Append(frames); }
  void Flush() override { connection_->Flush(); }
  void Finish() override { connection_->Finish(); }
  void Abort() override { connection_->Abort(); }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return connection_->bytes_sent(); }
  [[nodiscard]] std::size_t unsent() const override { return connection_->unsent(); }
  void OnSent(std::function<void()> listener) override { connection_->OnSent(std::move(listener)); }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<ResponseStream> DialResponseStream(Loop& loop,
                                                   const std::string& address,
                                                   Connection::OnEnd on_end) {
  UNDERSTUDY_ASSERT(loop.OnThread());
  auto connection = std::make_shared<Connection>(NativeContext(loop), std::move(on_end));
  connection->Dial(address);
  return std::make_unique<Stream>(std::move(connection));
}

}  // namespace understudy::transport
