// Connects again where libzmq would not.
#pragma once

#include "transport/zmq/link.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

namespace understudy::transport {

/// A connection that breaks is tried again by libzmq, but after what it takes for a protocol error
/// (a frame over the limit, a peer that does not speak ZMQ) it gives the endpoint up for ever,
/// without a word. This watches a connecting socket's monitor, and when a connection ended and no
/// retry was announced, disconnects and connects the endpoint. On the loop's thread.
class ZmqReviver {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqReviver>> New(
      asio::io_context& loop,
      const std::shared_ptr<ZmqContextImpl>& context,
      std::shared_ptr<ZmqLink> link,
      const ZmqLimits& limits);
  /// Before the link is closed.
  ~ZmqReviver();
  ZmqReviver(const ZmqReviver&) = delete;
  ZmqReviver& operator=(const ZmqReviver&) = delete;

  void Watch(const std::string& endpoint);
  void Forget(const std::string& endpoint);

 private:
  struct Watched {
    std::string endpoint;
    bool is_lost = false;
  };

  ZmqReviver(asio::io_context& loop, std::shared_ptr<ZmqLink> link, const ZmqLimits& limits)
      : link_(std::move(link)), timer_(loop), delay_(2 * limits.reconnect_first) {}
  void OnEvent(ZmqFrames frames);
  /// libzmq names an endpoint as we did, or by its address: then it is clear only for a single one.
  Watched* Find(std::string_view address);
  void ReviveSoon();
  void Revive();

  std::shared_ptr<ZmqLink> link_;
  std::shared_ptr<ZmqLink> monitor_;
  std::vector<Watched> watched_;
  asio::steady_timer timer_;
  std::chrono::milliseconds delay_;
  bool is_waiting_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace understudy::transport
