#include "transport/http/server.h"

#include "transport/http/connection.h"
#include "transport/loop/native.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <list>
#include <utility>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>

namespace understudy::transport {
namespace http {
namespace {

using Tcp = asio::ip::tcp;

constexpr Nanoseconds kAcceptRetry = std::chrono::milliseconds(100);

std::string Show(const std::string& host, std::uint16_t port) {
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// The addresses of `host`: itself when numeric, else what the resolver says.
std::vector<Tcp::endpoint> Resolve(asio::io_context& context,
                                   std::string host,
                                   std::uint16_t port,
                                   asio::error_code& error) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto numeric = asio::ip::make_address(host, error);
  if (!error) {
    return {Tcp::endpoint(numeric, port)};
  }
  Tcp::resolver resolver(context);
  std::vector<Tcp::endpoint> endpoints;
  for (const auto& entry : resolver.resolve(host, std::to_string(port), error)) {
    endpoints.push_back(entry.endpoint());
  }
  return endpoints;
}

void Listen(Tcp::acceptor& acceptor, const Tcp::endpoint& endpoint, asio::error_code& error) {
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  }
  if (!error && endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) {
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  }
  if (error) {
    asio::error_code ignored;
    acceptor.close(ignored);
  }
}

class Server final : public HttpServer {
 public:
  Server(Loop& loop, Tcp::acceptor acceptor, Connection::Handler handler, Limits limits)
      : core_(std::make_shared<Core>(loop, std::move(acceptor), std::move(handler), limits)) {
    core_->Accept();
  }
  ~Server() override { core_->Close(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::string address() const override { return core_->address; }

 private:
  // Shared with the accept that asio still holds when the server is gone.
  struct Core : std::enable_shared_from_this<Core> {
    Core(Loop& owner, Tcp::acceptor listening, Connection::Handler answer, Limits bounds)
        : loop(owner),
          acceptor(std::move(listening)),
          retry(owner.NewTimer()),
          handler(std::move(answer)),
          limits(bounds) {
      asio::error_code ignored;
      const auto local = acceptor.local_endpoint(ignored);
      address = Show(local.address().to_string(), local.port());
    }

    void Accept() {
      acceptor.async_accept(
          [self = shared_from_this()](asio::error_code error, Tcp::socket socket) {
            if (self->closed) {
              return;
            }
            if (error) {
              // Out of descriptors, most likely: at once again would spin.
              self->retry->After(kAcceptRetry, [core = self.get()] { core->Accept(); });
              return;
            }
            self->Admit(std::move(socket));
            self->Accept();
          });
    }

    void Admit(Tcp::socket socket) {
      const bool room = connections.size() < limits.connections_max || CloseIdle();
      const bool flooded = connections.size() >= 2 * limits.connections_max;
      if (flooded) {
        return;  // even refusals have a bound
      }
      Connection::Owner owner{
          handler, limits, [this](Connection* connection) { Drop(connection); }};
      auto connection = std::make_shared<Connection>(loop, std::move(socket), std::move(owner));
      connections.push_back(connection);
      if (room) {
        connection->Start();
      } else {
        HttpResponse busy;
        busy.status = 503;
        busy.body = "too many connections";
        connection->Reject(busy);
      }
    }

    /// Makes room: a probe must get in although somebody keeps connections open.
    bool CloseIdle() {
      const auto idle = std::find_if(
          connections.begin(), connections.end(), [](const auto& each) { return each->idle(); });
      if (idle == connections.end()) {
        return false;
      }
      (*idle)->Close();
      connections.erase(idle);
      return true;
    }

    void Drop(Connection* connection) {
      connections.remove_if([&](const auto& each) { return each.get() == connection; });
    }

    void Close() {
      UNDERSTUDY_ASSERT(loop.OnThread());
      closed = true;
      asio::error_code ignored;
      acceptor.close(ignored);
      retry.reset();
      for (const auto& connection : connections) {
        connection->Close();
      }
      connections.clear();
    }

    Loop& loop;
    Tcp::acceptor acceptor;
    std::unique_ptr<Timer> retry;
    Connection::Handler handler;
    Limits limits;
    std::string address;
    std::list<std::shared_ptr<Connection>> connections;  ///< oldest first
    bool closed = false;
  };

  std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> Serve(Loop& loop,
                                          const std::string& host,
                                          std::uint16_t port,
                                          Connection::Handler handler,
                                          Limits limits) {
  UNDERSTUDY_ASSERT(loop.OnThread());
  asio::io_context& context = NativeContext(loop);
  asio::error_code error;
  Tcp::acceptor acceptor(context);
  for (const auto& endpoint : Resolve(context, host, port, error)) {
    Listen(acceptor, endpoint, error);
    if (!error) {
      break;
    }
  }
  if (!acceptor.is_open()) {
    return Fail(Errc::kUnavailable,
                "status server cannot listen on " + Show(host, port) + ": " + error.message());
  }
  return std::unique_ptr<HttpServer>(
      std::make_unique<Server>(loop, std::move(acceptor), std::move(handler), limits));
}

}  // namespace http

Result<std::unique_ptr<HttpServer>> ServeHttp(
    Loop& loop,
    const std::string& host,
    std::uint16_t port,
    std::function<HttpResponse(const HttpRequest&)> handler) {
  return http::Serve(loop, host, port, std::move(handler), {});
}

}  // namespace understudy::transport
