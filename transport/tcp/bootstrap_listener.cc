// The prefill side: accepts, and reads registrations.
#include "transport/loop/native.h"
#include "transport/tcp/bootstrap_connection.h"
#include "transport/tcp/bootstrap_socket.h"
#include "understudy/base/assert.h"
#include "understudy/transport/bootstrap.h"

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {
namespace {

using asio::ip::tcp;

/// A connection that has not registered yet.
struct HalfOpen {
  HalfOpen(std::shared_ptr<BootstrapSocket> from, asio::io_context& context)
      : socket(std::move(from)), timer(context) {}
  std::shared_ptr<BootstrapSocket> socket;
  asio::steady_timer timer;
  bool header_seen = false;
  bool refused = false;  ///< there was no place for it: it only hears that
};

class Listener final : public std::enable_shared_from_this<Listener> {
 public:
  Listener(asio::io_context& context, BootstrapListener::Options options)
      : context_(context), options_(std::move(options)), acceptor_(context), pause_(context) {}

  Status Open() {
    if (options_.pending_max == 0) {
      return Fail(Errc::kInvalidConfig, "bootstrap max_pending_connections must be at least one");
    }
    asio::error_code error;
    const auto literal = asio::ip::make_address(options_.host, error);
    if (error) {
      return Fail(Errc::kInvalidConfig,
                  "bootstrap listen address '" + options_.host + "' is not an IP address");
    }
    const tcp::endpoint endpoint(literal, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return Fail(Errc::kUnavailable, OsErrorText(error.value()));
    }
    port_ = acceptor_.local_endpoint(error).port();
    Accept();
    return {};
  }

  void Take(std::function<void(BootstrapIncoming)> incoming) {
    asio::post(context_, [self = shared_from_this(), incoming = std::move(incoming)]() mutable {
      self->incoming_ = std::move(incoming);
      while (!self->closed_ && !self->waiting_.empty()) {
        BootstrapIncoming first = std::move(self->waiting_.front());
        self->waiting_.pop_front();
        self->incoming_(std::move(first));
      }
    });
  }

  void Shutdown() {
    closed_ = true;
    asio::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (auto& [number, half_open] : half_open_) {
      half_open->timer.cancel();
      half_open->socket->Close();
    }
    half_open_.clear();
    waiting_.clear();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] const BootstrapListenerCounts& counts() const { return counts_; }

 private:
  void Accept() {
    acceptor_.async_accept([self = shared_from_this()](asio::error_code error, tcp::socket socket) {
      if (self->closed_) {
        return;
      }
      if (error) {
        self->PauseAccepting();
        return;
      }
      self->Accepted(std::move(socket));
      self->Accept();
    });
  }

  /// Out of descriptors, most likely: some come back.
  void PauseAccepting() {
    ++counts_.accept_errors_total;
    pause_.expires_after(BootstrapListener::kAcceptPause);
    pause_.async_wait([self = shared_from_this()](asio::error_code error) {
      if (!error && !self->closed_) {
        self->Accept();
      }
    });
  }

  void Accepted(tcp::socket socket) {
    ++counts_.accepted_total;
    const std::size_t places = half_open_.size() - (refusing_ ? 1U : 0U);
    const bool refused = places >= options_.pending_max;
    if (refused && refusing_) {
      ++counts_.dropped_total;
      return;  // and closed with it
    }
    asio::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.non_blocking(true, ignored);
    const auto number = ++last_number_;
    auto half_open = std::make_shared<HalfOpen>(
        std::make_shared<BootstrapSocket>(
            context_, std::move(socket), options_.send_timeout, /*quick_ack=*/true),
        context_);
    half_open->refused = refused;
    refusing_ = refusing_ || refused;
    half_open_[number] = half_open;
    half_open->timer.expires_after(options_.registration_timeout);
    half_open->timer.async_wait([self = shared_from_this(), number](asio::error_code error) {
      if (!error) {
        self->Remove(number, self->counts_.timed_out_total);
      }
    });
    half_open->socket->Read(
        {[self = shared_from_this(), number](std::string& in) { return self->OnBytes(number, in); },
         [self = shared_from_this(), number](const Status& why) {
           const bool cut_off = why || why.error().code != Errc::kMalformed;
           self->Remove(number, cut_off ? self->counts_.cut_off_total : self->counts_.bad_total);
         }});
  }

  /// Closed without a word: whoever sends something else is told nothing.
  void Remove(std::uint64_t number, std::uint64_t& counter) {
    const auto it = half_open_.find(number);
    if (closed_ || it == half_open_.end()) {
      return;
    }
    ++counter;
    const auto half_open = it->second;
    half_open_.erase(it);
    refusing_ = refusing_ && !half_open->refused;
    half_open->timer.cancel();
    half_open->socket->Close();
  }

  Status OnBytes(std::uint64_t number, std::string& in) {
    const auto it = half_open_.find(number);
    if (closed_ || it == half_open_.end()) {
      return {};
    }
    const auto half_open = it->second;
    auto frame = ReadRegistration(*half_open, in);
    if (!frame) {
      return frame.error().code == Errc::kTruncated
                 ? Status()
                 : Fail(Errc::kMalformed, std::move(frame).error().message);
    }
    half_open->socket->Pause();
    Registered(number, half_open, *frame);
    return {};
  }

  static Result<BootstrapFrame> ReadRegistration(HalfOpen& half_open, std::string& in) {
    if (!half_open.header_seen) {
      UNDERSTUDY_TRY_STATUS(CheckBootstrapHeader(in));
      half_open.header_seen = true;
      in.erase(0, kBootstrapHeaderBytes);
    }
    UNDERSTUDY_TRY(const BootstrapBody body, SplitBootstrapFrame(in));
    auto frame = DecodeBootstrapBody(body.json);
    if (!frame) {
      return Fail(Errc::kMalformed, "bootstrap registration contains malformed JSON");
    }
    if (!std::holds_alternative<BootstrapRegister>(frame->message)) {
      return Fail(Errc::kMalformed, "bootstrap first frame must register a participant");
    }
    in.erase(0, body.frame_bytes);
    return std::move(*frame);
  }

  void Registered(std::uint64_t number,
                  const std::shared_ptr<HalfOpen>& half_open,
                  const BootstrapFrame& frame) {
    half_open->timer.cancel();
    if (half_open->refused || (!incoming_ && waiting_.size() >= options_.pending_max)) {
      Refuse(number, half_open, frame.identity);
      return;
    }
    half_open_.erase(number);
    ++counts_.registered_total;
    BootstrapIncoming incoming{frame.identity,
                               std::get<BootstrapRegister>(frame.message),
                               NewBootstrapConnection(half_open->socket, frame.identity)};
    if (incoming_) {
      incoming_(std::move(incoming));
    } else {
      waiting_.push_back(std::move(incoming));
    }
  }

  /// Keeps its place until the answer is written.
  void Refuse(std::uint64_t number,
              const std::shared_ptr<HalfOpen>& half_open,
              const BootstrapIdentity& identity) {
    std::string bytes;
    const Status encoded = AppendBootstrapFrame(bytes, {identity, BootstrapOverloaded()});
    UNDERSTUDY_ASSERT(encoded);
    half_open->socket->Read({[](std::string& in) {
                               in.clear();
                               return Status();
                             },
                             [self = shared_from_this(), number](const Status&) {
                               self->Remove(number, self->counts_.cut_off_total);
                             }});
    const Status queued =
        half_open->socket->Write(std::move(bytes), Task([self = shared_from_this(), number] {
                                   self->Remove(number, self->counts_.refused_total);
                                 }));
    if (!queued) {
      Remove(number, counts_.cut_off_total);
    }
  }

  asio::io_context& context_;
  const BootstrapListener::Options options_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::map<std::uint64_t, std::shared_ptr<HalfOpen>> half_open_;
  std::deque<BootstrapIncoming> waiting_;  ///< until Take
  std::function<void(BootstrapIncoming)> incoming_;
  BootstrapListenerCounts counts_;
  std::uint64_t last_number_ = 0;
  std::uint16_t port_ = 0;
  bool refusing_ = false;  ///< one of half_open_ is there only to be refused
  bool closed_ = false;
};

/// Owner's handle: pending handlers share the Listener and see that it was shut down.
class Handle final : public BootstrapListener {
 public:
  explicit Handle(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
  ~Handle() override { listener_->Shutdown(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  [[nodiscard]] std::uint16_t port() const override { return listener_->port(); }
  void Take(std::function<void(BootstrapIncoming)> incoming) override {
    listener_->Take(std::move(incoming));
  }
  [[nodiscard]] const BootstrapListenerCounts& counts() const override {
    return listener_->counts();
  }

 private:
  std::shared_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<BootstrapListener>> ListenForBootstrap(
    Loop& loop, const BootstrapListener::Options& options) {
  UNDERSTUDY_ASSERT(loop.OnThread());
  auto listener = std::make_shared<Listener>(NativeContext(loop), options);
  UNDERSTUDY_TRY_STATUS(listener->Open());
  return std::make_unique<Handle>(std::move(listener));
}

}  // namespace understudy::transport
