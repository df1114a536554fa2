// The decode side: connect, header, registration.
#include "transport/loop/native.h"
#include "transport/tcp/bootstrap_connection.h"
#include "transport/tcp/bootstrap_socket.h"
#include "understudy/base/assert.h"
#include "understudy/transport/bootstrap.h"

#include <deque>
#include <netdb.h>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {
namespace {

using asio::ip::tcp;

std::string BareHost(const std::string& host) {
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

/// asio's codes for getaddrinfo, in the words of the C library.
std::string LookupErrorText(const asio::error_code& error) {
  int code = EAI_FAIL;
  if (error == asio::error::host_not_found) {
    code = EAI_NONAME;
  } else if (error == asio::error::host_not_found_try_again) {
    code = EAI_AGAIN;
  } else if (error == asio::error::service_not_found) {
    code = EAI_SERVICE;
  }
  return std::string("failed to lookup address information: ") + ::gai_strerror(code);
}

/// Connecting; shared with the handlers of asio.
class Dialler : public std::enable_shared_from_this<Dialler> {
 public:
  Dialler(asio::io_context& context,
          BootstrapTarget target,
          std::shared_ptr<BootstrapSocket> socket,
          std::function<void(Status)> on_open)
      : context_(context),
        target_(std::move(target)),
        socket_(std::move(socket)),
        resolver_(context),
        timer_(context),
        on_open_(std::move(on_open)) {}

  void Begin(std::string opening) {
    opening_ = std::move(opening);
    timer_.expires_after(target_.connect_timeout);
    timer_.async_wait([self = shared_from_this()](asio::error_code error) {
      if (!error) {
        self->Done(
            Fail(Errc::kTimeout, "bootstrap connect timeout to " + AddressText(self->target_)));
      }
    });
    const std::string host = BareHost(target_.host);
    asio::error_code error;
    const auto literal = asio::ip::make_address(host, error);
    if (!error) {
      Connect(tcp::endpoint(literal, target_.port));
      return;
    }
    resolver_.async_resolve(
        host,
        std::to_string(target_.port),
        [self = shared_from_this()](asio::error_code failure,
                                    const tcp::resolver::results_type& results) {
          self->OnResolved(failure, results);
        });
  }

  void Abort() {
    on_open_ = nullptr;
    Stop();
  }

 private:
  void OnResolved(asio::error_code failure, const tcp::resolver::results_type& results) {
    if (!on_open_) {
      return;
    }
    if (failure) {
      Done(Fail(Errc::kUnavailable, LookupErrorText(failure)));
      return;
    }
    for (const auto& result : results) {
      others_.push_back(result.endpoint());
    }
    ConnectNext(asio::error::host_not_found);
  }

  /// A name may have several addresses, of which the peer listens on one.
  void ConnectNext(asio::error_code last) {
    if (others_.empty()) {
      Done(Fail(Errc::kUnavailable, OsErrorText(last.value())));
      return;
    }
    const auto endpoint = others_.front();
    others_.pop_front();
    asio::error_code ignored;
    socket_->native().close(ignored);
    Connect(endpoint);
  }

  void Connect(const tcp::endpoint& endpoint) {
    asio::error_code error;
    socket_->native().open(endpoint.protocol(), error);
    if (error) {
      ConnectNext(error);
      return;
    }
    socket_->native().set_option(tcp::no_delay(true), error);
    socket_->native().async_connect(endpoint,
                                    [self = shared_from_this()](asio::error_code failure) {
                                      if (!self->on_open_) {
                                        return;
                                      }
                                      if (failure) {
                                        self->ConnectNext(failure);
                                      } else {
                                        self->Register();
                                      }
                                    });
  }

  void Register() {
    asio::error_code ignored;
    socket_->native().non_blocking(true, ignored);
    timer_.expires_after(target_.send_timeout);
    timer_.async_wait([self = shared_from_this()](asio::error_code error) {
      if (!error) {
        const bool header = self->socket_->sent_of_first() < kBootstrapHeaderBytes;
        self->Done(Fail(Errc::kTimeout,
                        header ? "bootstrap header send timed out" : "bootstrap send timed out"));
      }
    });
    const Status queued = socket_->Write(
        std::move(opening_), Task([self = shared_from_this()] { self->Done(Status()); }));
    if (!queued) {
      Done(queued);
    }
  }

  /// Always from a handler of asio, or posted.
  void Done(Status status) {
    Stop();
    if (!status) {
      socket_->Close();
    }
    asio::post(context_, [self = shared_from_this(), status = std::move(status)] {
      if (const auto on_open = std::exchange(self->on_open_, nullptr)) {
        on_open(status);
      }
    });
  }

  void Stop() {
    timer_.cancel();
    resolver_.cancel();
  }

  asio::io_context& context_;
  const BootstrapTarget target_;
  std::shared_ptr<BootstrapSocket> socket_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  std::deque<tcp::endpoint> others_;  ///< still to try
  std::string opening_;               ///< header and registration
  std::function<void(Status)> on_open_;
};

/// A connection that may still be on its way.
class DialledConnection final : public BootstrapConnection {
 public:
  DialledConnection(std::shared_ptr<Dialler> dialler,
                    std::unique_ptr<BootstrapConnection> connection)
      : dialler_(std::move(dialler)), connection_(std::move(connection)) {}
  ~DialledConnection() override { dialler_->Abort(); }
  DialledConnection(const DialledConnection&) = delete;
  DialledConnection& operator=(const DialledConnection&) = delete;

  [[nodiscard]] const BootstrapIdentity& identity() const override {
    return connection_->identity();
  }
  void Start(Handlers handlers) override { connection_->Start(std::move(handlers)); }
  [[nodiscard]] Status Send(const BootstrapMessage& message, Task written) override {
    return connection_->Send(message, std::move(written));
  }
  [[nodiscard]] bool PeerClosed() override { return connection_->PeerClosed(); }

 private:
  std::shared_ptr<Dialler> dialler_;
  std::unique_ptr<BootstrapConnection> connection_;
};

}  // namespace

std::string AddressText(const BootstrapTarget& target) {
  const std::string host = BareHost(target.host);
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(target.port);
}

std::unique_ptr<BootstrapConnection> DialBootstrap(Loop& loop,
                                                   const BootstrapTarget& target,
                                                   const BootstrapIdentity& identity,
                                                   const BootstrapRegister& registration,
                                                   std::function<void(Status)> on_open) {
  UNDERSTUDY_ASSERT(loop.OnThread());
  asio::io_context& context = NativeContext(loop);
  auto socket = std::make_shared<BootstrapSocket>(
      context, tcp::socket(context), target.send_timeout, /*quick_ack=*/false);
  std::string opening;
  AppendBootstrapHeader(opening);
  const Status encoded = AppendBootstrapFrame(opening, {identity, registration});
  UNDERSTUDY_ASSERT(encoded);  // a registration has a small fixed size
  auto dialler = std::make_shared<Dialler>(context, target, socket, std::move(on_open));
  dialler->Begin(std::move(opening));
  return std::make_unique<DialledConnection>(std::move(dialler),
                                             NewBootstrapConnection(std::move(socket), identity));
}

}  // namespace understudy::transport
