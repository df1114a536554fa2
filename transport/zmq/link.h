// One ZMQ socket, polled by the loop.
//
// Rules behind the code:
// - ZMQ_FD only says "look at the socket": it is edge-triggered, readable for reasons that are not
//   messages, and any send or receive may swallow the edge. So every look drains the socket, and
//   every send is followed by a look.
// - The descriptor belongs to libzmq: the loop polls a duplicate, which may be closed without
//   touching libzmq's own.
// - Closing waits for peers for a moment only. Without any linger libzmq 4.3.4 ends the process
//   (session_base.cpp, clean_pipes) when a peer goes in the same moment and has read a part of a
//   message.
#pragma once

#include "understudy/transport/zmq.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <zmq.h>

namespace understudy::transport {

class ZmqContextImpl final : public ZmqContext {
 public:
  ZmqContextImpl();
  ~ZmqContextImpl() override;
  ZmqContextImpl(const ZmqContextImpl&) = delete;
  ZmqContextImpl& operator=(const ZmqContextImpl&) = delete;
  [[nodiscard]] void* get() const { return context_; }

 private:
  void* context_;
};

/// Bytes that libzmq holds for us. Its thread gives them back, possibly after the link is gone.
using UnsentBytes = std::shared_ptr<std::atomic<std::size_t>>;

class ZmqLink : public std::enable_shared_from_this<ZmqLink> {
 public:
  struct Setup {
    int type = 0;                      ///< ZMQ_SUB, ...
    asio::io_context* loop = nullptr;  ///< null: nothing is received (a PUB)
    ZmqLimits limits;
    ZmqSocket::Handler handler;
  };
  /// kUnavailable: no more sockets or descriptors.
  [[nodiscard]] static Result<std::shared_ptr<ZmqLink>> Open(
      std::shared_ptr<ZmqContextImpl> context, Setup setup);
  ~ZmqLink() { Close(); }
  ZmqLink(const ZmqLink&) = delete;
  ZmqLink& operator=(const ZmqLink&) = delete;

  /// No handler runs afterwards.
  void Close();

  Status Bind(const std::string& endpoint);
  Status Connect(const std::string& endpoint);
  void Disconnect(const std::string& endpoint);
  void Subscribe(const std::string& topic);
  /// All frames or none.
  ZmqSend Send(ZmqFrames frames);

  /// libzmq's handle; null when closed.
  [[nodiscard]] void* native() const { return socket_; }
  [[nodiscard]] const std::string& bound_endpoint() const { return bound_endpoint_; }
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_->load(); }

 private:
  static constexpr int kDrainMax = 256;  // messages per look: one busy socket cannot hold the loop

  ZmqLink(std::shared_ptr<ZmqContextImpl> context, void* socket, Setup setup);
  Status StartToReceive();
  void Configure(const ZmqLimits& limits);
  void Set(int option, int value);
  void Arm();
  void LookSoon();
  void Look();
  /// Reads one message into frames_; 0 when none is there.
  std::size_t Receive();
  bool ReceiveFrame(zmq_msg_t& into);

  std::shared_ptr<ZmqContextImpl> context_;
  void* socket_;  ///< null when closed
  Setup setup_;
  std::optional<asio::posix::stream_descriptor> wake_;
  UnsentBytes unsent_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::string bound_endpoint_;
  std::array<zmq_msg_t, kZmqFramesMax> frames_{};
  bool look_posted_ = false;
};

}  // namespace understudy::transport
