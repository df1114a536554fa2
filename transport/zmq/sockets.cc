// The four kinds of sockets over ZmqLink.
#include "transport/loop/native.h"
#include "transport/zmq/link.h"
#include "transport/zmq/reviver.h"
#include "understudy/base/assert.h"

#include <utility>

namespace understudy::transport {
namespace {

/// What a kind adds to ZmqSocket: nothing but Send, and a SUB has none.
template <class Base>
class Socket : public Base {
 public:
  explicit Socket(std::shared_ptr<ZmqLink> link, std::unique_ptr<ZmqReviver> reviver = nullptr)
      : link_(std::move(link)), reviver_(std::move(reviver)) {}
  ~Socket() override {
    reviver_.reset();
    link_->Close();
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  Status Bind(const std::string& endpoint) override { return link_->Bind(endpoint); }
  Status Connect(const std::string& endpoint) override {
    UNDERSTUDY_TRY_STATUS(link_->Connect(endpoint));
    if (reviver_ != nullptr) {
      reviver_->Watch(endpoint);
    }
    return {};
  }
  void Disconnect(const std::string& endpoint) override {
    if (reviver_ != nullptr) {
      reviver_->Forget(endpoint);
    }
    link_->Disconnect(endpoint);
  }
  [[nodiscard]] std::string bound_endpoint() const override { return link_->bound_endpoint(); }
  [[nodiscard]] std::size_t unsent_bytes() const override { return link_->unsent_bytes(); }

 protected:
  std::shared_ptr<ZmqLink> link_;

 private:
  std::unique_ptr<ZmqReviver> reviver_;
};

template <class Base>
class SendingSocket final : public Socket<Base> {
 public:
  using Socket<Base>::Socket;
  ZmqSend Send(ZmqFrames frames) override { return this->link_->Send(frames); }
};

std::shared_ptr<ZmqContextImpl> Impl(std::shared_ptr<ZmqContext> context) {
  return std::static_pointer_cast<ZmqContextImpl>(std::move(context));  // New is the only maker
}

/// A socket of `Made` for a kind that receives and that connects to its peers.
template <class Made>
auto Connecting(Loop& loop,
                std::shared_ptr<ZmqContext> context,
                int type,
                const ZmqLimits& limits,
                ZmqSocket::Handler handler)
    -> Result<std::pair<std::shared_ptr<ZmqLink>, std::unique_ptr<Made>>> {
  const auto impl = Impl(std::move(context));
  asio::io_context& native = NativeContext(loop);
  UNDERSTUDY_TRY(auto link, ZmqLink::Open(impl, {type, &native, limits, std::move(handler)}));
  UNDERSTUDY_TRY(auto reviver, ZmqReviver::New(native, impl, link, limits));
  return std::pair(link, std::make_unique<Made>(link, std::move(reviver)));
}

}  // namespace

Result<std::unique_ptr<ZmqSubscriber>> ZmqSubscriber::New(Loop& loop,
                                                          std::shared_ptr<ZmqContext> context,
                                                          const std::string& topic,
                                                          const ZmqLimits& limits,
                                                          Handler handler) {
  UNDERSTUDY_TRY(auto made,
                 Connecting<Socket<ZmqSubscriber>>(
                     loop, std::move(context), ZMQ_SUB, limits, std::move(handler)));
  made.first->Subscribe(topic);
  return std::move(made.second);
}

Result<std::unique_ptr<ZmqDealer>> ZmqDealer::New(Loop& loop,
                                                  std::shared_ptr<ZmqContext> context,
                                                  const ZmqLimits& limits,
                                                  Handler handler) {
  UNDERSTUDY_TRY(auto made,
                 Connecting<SendingSocket<ZmqDealer>>(
                     loop, std::move(context), ZMQ_DEALER, limits, std::move(handler)));
  return std::move(made.second);
}

Result<std::unique_ptr<ZmqPublisher>> ZmqPublisher::New(std::shared_ptr<ZmqContext> context,
                                                        const ZmqLimits& limits) {
  UNDERSTUDY_TRY(auto link,
                 ZmqLink::Open(Impl(std::move(context)), {ZMQ_PUB, nullptr, limits, {}}));
  return std::make_unique<SendingSocket<ZmqPublisher>>(std::move(link));
}

Result<std::unique_ptr<ZmqPublisher>> ZmqPublisher::NewConnecting(
    Loop& loop, std::shared_ptr<ZmqContext> context, const ZmqLimits& limits) {
  const auto impl = Impl(std::move(context));
  UNDERSTUDY_TRY(auto link, ZmqLink::Open(impl, {ZMQ_PUB, nullptr, limits, {}}));
  UNDERSTUDY_TRY(auto reviver, ZmqReviver::New(NativeContext(loop), impl, link, limits));
  return std::make_unique<SendingSocket<ZmqPublisher>>(std::move(link), std::move(reviver));
}

Result<std::unique_ptr<ZmqRouter>> ZmqRouter::New(Loop& loop,
                                                  std::shared_ptr<ZmqContext> context,
                                                  const ZmqLimits& limits,
                                                  Handler handler) {
  UNDERSTUDY_TRY(auto link,
                 ZmqLink::Open(Impl(std::move(context)),
                               {ZMQ_ROUTER, &NativeContext(loop), limits, std::move(handler)}));
  return std::make_unique<SendingSocket<ZmqRouter>>(std::move(link));
}

}  // namespace understudy::transport
