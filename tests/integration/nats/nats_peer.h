// A NatsClient with a blocking face, and a NATS server played by the test line by line.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"
#include "understudy/transport/nats.h"

#include <condition_variable>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::transport {

struct Received {
  std::string subject, reply, payload;
  std::optional<std::string> status;  ///< header "Status"
  std::optional<std::string> word;    ///< header "x-word"
};

/// What a subscription got. Filled on the loop, waited for by the test.
class Inbox {
 public:
  [[nodiscard]] NatsClient::Handler Handler();
  /// All so far, as soon as there are `count` (or a minute is over).
  std::vector<Received> WaitFor(std::size_t count);
  [[nodiscard]] std::size_t size();
  void Clear();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Received> messages_;
};

/// Members block; not from the loop.
class TestClient {
 public:
  using Event = NatsClient::Event;
  TestClient(fakes::LoopThread& thread, NatsOptions options);
  TestClient(fakes::LoopThread& thread, const std::string& url);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  Status Start();
  [[nodiscard]] std::future<Status> BeginStart();
  NatsClient::SubscriptionId Subscribe(const std::string& subject,
                                       Inbox& inbox,
                                       const std::string& queue = {});
  Status Publish(const std::string& subject,
                 std::string_view payload,
                 const std::string& reply = {});
  Status Flush(Nanoseconds limit = std::chrono::seconds(30));
  [[nodiscard]] std::future<Status> BeginFlush(Nanoseconds limit);
  void Close(Nanoseconds limit);
  void Destroy();
  /// Waits until connected() is `wanted`; false after a minute.
  bool WaitConnected(bool wanted);
  /// How often `event` was told so far.
  int Count(Event event);

  template <class F>
  auto Do(F use) {
    return thread_.Do([&] { return use(*client_); });
  }

 private:
  fakes::LoopThread& thread_;
  std::unique_ptr<NatsClient> client_;  // used on the loop
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
};

/// Plays the server on one accepted connection: INFO, then CONNECT and PING from the client are
/// answered.
class FakeServerLink {
 public:
  explicit FakeServerLink(std::unique_ptr<Peer> peer) : peer_(std::move(peer)) {}
  /// False when the client did not get through its handshake.
  bool Welcome();
  /// Reads until a line that begins with `prefix` came and gives it back; PINGs on the way are
  /// answered. Empty = it did not come.
  std::string ReadLine(std::string_view prefix);
  bool Send(std::string_view bytes) { return peer_->Send(bytes); }
  Peer& peer() { return *peer_; }

 private:
  std::unique_ptr<Peer> peer_;
  std::string pending_;
};

/// The thread count of this process.
[[nodiscard]] std::size_t Threads();

}  // namespace understudy::transport
