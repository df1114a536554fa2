#include "transport/loop/native.h"
#include "understudy/base/assert.h"
#include "understudy/transport/response_stream.h"

#include <array>
#include <map>
#include <memory>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

namespace understudy::transport {
namespace {

using asio::ip::tcp;
constexpr std::size_t kReadBytes = 64U << 10;
constexpr Nanoseconds kAcceptRetry =
    std::chrono::milliseconds(50);  // out of descriptors: some come back soon

class Listener final : public ResponseListener, public std::enable_shared_from_this<Listener> {
 public:
  using OnBytes = std::function<void(const Peer&)>;
  Listener(asio::io_context& context, OnBytes on_bytes)
      : acceptor_(context), accept_retry_(context), on_bytes_(std::move(on_bytes)) {}

  Status Open(const std::string& host) {
    asio::error_code error;
    const auto literal = asio::ip::make_address(host, error);
    if (error) {
      return Fail(Errc::kInvalidConfig, "listen address '" + host + "' is not an IP address");
    }
    const tcp::endpoint endpoint(literal, 0);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return Fail(Errc::kUnavailable, "cannot listen on '" + host + "': " + error.message());
    }
    const auto port = std::to_string(acceptor_.local_endpoint(error).port());
    address_ = literal.is_v6() ? "[" + host + "]:" + port : host + ":" + port;
    Accept();
    return {};
  }

  [[nodiscard]] std::string address() const override { return address_; }

  void Send(std::uint64_t connection, std::string_view bytes) override {
    const auto it = sockets_.find(connection);
    if (it == sockets_.end()) {
      return;
    }
    auto kept = std::make_shared<std::string>(bytes);
    asio::async_write(*it->second,
                      asio::buffer(*kept),
                      [kept, socket = it->second](asio::error_code, std::size_t) {});
  }

  void CloseConnection(std::uint64_t connection) override {
    if (const auto it = sockets_.find(connection); it != sockets_.end()) {
      Close(*it->second);
      sockets_.erase(it);
    }
  }

  void Shutdown() {
    closed_ = true;
    asio::error_code ignored;
    acceptor_.close(ignored);
    accept_retry_.cancel();
    for (auto& [id, socket] : sockets_) {
      Close(*socket);
    }
    sockets_.clear();
  }

 private:
  /// At once: the pending read shares the socket, so that forgetting it alone would keep the
  /// connection open.
  static void Close(tcp::socket& socket) {
    asio::error_code ignored;
    socket.close(ignored);
  }

  void Accept() {
    acceptor_.async_accept([self = shared_from_this()](asio::error_code error, tcp::socket socket) {
      if (self->closed_) {
        return;
      }
      if (!error) {
        asio::error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        const auto id = ++self->last_id_;
        self->sockets_[id] = std::make_shared<tcp::socket>(std::move(socket));
        self->Read(id);
        self->Accept();
        return;
      }
      self->accept_retry_.expires_after(kAcceptRetry);
      self->accept_retry_.async_wait([self](asio::error_code cancelled) {
        if (!cancelled && !self->closed_) {
          self->Accept();
        }
      });
    });
  }

  void Read(std::uint64_t id) {
    const auto it = sockets_.find(id);
    if (it == sockets_.end()) {
      return;
    }
    auto buffer = std::make_shared<std::array<char, kReadBytes>>();
    it->second->async_read_some(asio::buffer(*buffer),
                                [self = shared_from_this(), socket = it->second, buffer, id](
                                    asio::error_code error, std::size_t n) {
                                  if (self->closed_ || !self->sockets_.contains(id)) {
                                    return;
                                  }
                                  if (error) {
                                    self->sockets_.erase(id);
                                    self->on_bytes_({id, {}});
                                    return;
                                  }
                                  self->on_bytes_({id, std::string_view(buffer->data(), n)});
                                  self->Read(id);
                                });
  }

  tcp::acceptor acceptor_;
  asio::steady_timer accept_retry_;
  OnBytes on_bytes_;
  std::string address_;
  std::map<std::uint64_t, std::shared_ptr<tcp::socket>> sockets_;
  std::uint64_t last_id_ = 0;
  bool closed_ = false;
};

/// Owner's handle: pending handlers share the Listener and see that it was shut down.
class Handle final : public ResponseListener {
 public:
  explicit Handle(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
  ~Handle() override { listener_->Shutdown(); }
  [[nodiscard]] std::string address() const override { return listener_->address(); }
  void Send(std::uint64_t connection, std::string_view bytes) override {
    listener_->Send(connection, bytes);
  }
  void CloseConnection(std::uint64_t connection) override {
    listener_->CloseConnection(connection);
  }

 private:
  std::shared_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<ResponseListener>> ListenForResponses(
    Loop& loop,
    const std::string& host,
    std::function<void(const ResponseListener::Peer&)> on_bytes) {
  UNDERSTUDY_ASSERT(loop.OnThread());
  auto listener = std::make_shared<Listener>(NativeContext(loop), std::move(on_bytes));
  UNDERSTUDY_TRY_STATUS(listener->Open(host));
  return std::make_unique<Handle>(std::move(listener));
}

}  // namespace understudy::transport
