// One NATS connection from Connect to its end, polled by the loop instead of by the library's
// threads.
//
// Rules behind the code, each from a measured failure of nats.c 3.4.1:
// - The library's own reconnect stays off: with an event loop its parser keeps half a message over
// a reconnect, and it
//   holds the connection's lock (also against Publish) while it connects. A lost link is replaced
//   by a new one.
// - Connect blocks, so it runs on a helper thread; a disconnect may come from the ping timer's
// thread. The event-loop
//   callbacks therefore duplicate, mark and post, nothing else.
// - nats.c closes its descriptor when it likes and the number is soon another socket: the loop
// polls a duplicate.
// - Publish never writes in place, it appends to memory without a limit: callers stop at
// kBacklogBytesMax.
// - A write event with nothing to write counts as a closed connection: only ask for one while bytes
// are buffered.
// - No TLS here: a record received or sent in part would block the loop in poll(2).
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <nats/nats.h>

namespace understudy::transport {

struct NatsOptionsDeleter {
  void operator()(natsOptions* options) const { natsOptions_Destroy(options); }
};
using NatsOptionsPtr = std::unique_ptr<natsOptions, NatsOptionsDeleter>;

class NatsLink : public std::enable_shared_from_this<NatsLink> {
 public:
  explicit NatsLink(asio::io_context& loop) : loop_(loop), poll_(loop) {}
  ~NatsLink();
  NatsLink(const NatsLink&) = delete;
  NatsLink& operator=(const NatsLink&) = delete;

  /// Drain the synchronous subscriptions here; on the loop. False: messages are left, nothing more
  /// is read before Resume.
  std::function<bool()> on_readable;
  std::function<void()> on_closed;  ///< once, last; on the loop

  /// Blocks up to the connect timeout: the only member for a helper thread.
  natsStatus Connect(natsOptions* options);
  /// On the loop, after Connect returned NATS_OK.
  void Start();
  /// On the loop, after on_readable said false and everything is drained.
  void Resume() { ArmRead(); }
  /// On the loop: forget the owner; no callback runs afterwards.
  void Detach();
  /// From a helper thread, after Detach: with bytes unsent it waits up to half a second for an
  /// answer that nobody reads any more.
  void CloseBlocking() { natsConnection_Close(connection_); }

  [[nodiscard]] natsConnection* get() const { return connection_; }
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  static NatsLink& Self(void* user) noexcept { return *static_cast<NatsLink*>(user); }
  natsStatus Lost() noexcept;
  void ArmRead();
  void SayClosed();
  void SetWrite(bool wanted);
  /// Sends what is buffered; what the socket does not take waits until it does.
  void Write();

  asio::io_context& loop_;
  asio::posix::stream_descriptor poll_;
  natsConnection* connection_ = nullptr;
  int duplicate_ = -1;               ///< owned until Start gives it to poll_
  std::atomic<bool> lost_{false};    // written by the library's threads after Connect
  std::atomic<bool> silent_{false};  // the owner is gone: post nothing more
  bool started_ = false, closed_ = false;
  bool want_write_ = false, write_armed_ = false;
};

}  // namespace understudy::transport
