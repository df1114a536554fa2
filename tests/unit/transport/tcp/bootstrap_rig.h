// Rendezvous connections on a loop thread, with a blocking face for tests.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"
#include "understudy/transport/bootstrap.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {

inline constexpr BootstrapIdentity kRigIdentity{{1, 2}, 7, {3, 4}};

inline std::string Header() {
  std::string bytes;
  AppendBootstrapHeader(bytes);
  return bytes;
}
inline std::string Framed(const BootstrapMessage& message,
                          const BootstrapIdentity& identity = kRigIdentity) {
  std::string bytes;
  EXPECT_TRUE(AppendBootstrapFrame(bytes, {identity, message}));
  return bytes;
}
inline BootstrapRegister Registration() {
  return {0, BootstrapOrder::kSourceFirst, BootstrapEngine::kVllm};
}
inline std::string Opening() {
  return Header() + Framed(Registration());
}

/// One connection: its handlers put what they get where a test can wait for it.
class Talk {
 public:
  explicit Talk(fakes::LoopThread& thread) : thread_(thread) {}
  ~Talk() { Destroy(); }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void Adopt(std::unique_ptr<BootstrapConnection> connection) {  // on the loop
    connection_ = std::move(connection);
  }
  void Start() {
    thread_.Do([this] {
      connection_->Start({[this](BootstrapMessage message) {
                            const std::lock_guard lock(mutex_);
                            messages_.push_back(std::move(message));
                            changed_.notify_all();
                          },
                          [this](Status why) {
                            const std::lock_guard lock(mutex_);
                            ends_.push_back(std::move(why));
                            changed_.notify_all();
                          }});
      return true;
    });
  }
  Status Send(const BootstrapMessage& message) {
    return thread_.Do([&] { return connection_->Send(message); });
  }
  template <class F>
  auto Do(F use) {
    return thread_.Do([&] { return use(*connection_); });
  }
  void Destroy() {
    thread_.Do([this] {
      connection_.reset();
      return true;
    });
  }
  std::optional<BootstrapMessage> Next() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return !messages_.empty(); });
    if (messages_.empty()) {
      return std::nullopt;
    }
    BootstrapMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  /// "" = the peer closed; else the text.
  std::string End() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return !ends_.empty(); });
    EXPECT_EQ(ends_.size(), 1U);
    return EndText(0);
  }
  /// After a frame that made no sense: that nothing can be written any more either.
  std::string SecondEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return ends_.size() >= 2; });
    return EndText(1);
  }

 private:
  [[nodiscard]] std::string EndText(std::size_t number) const {
    return number >= ends_.size() ? "nothing" : ends_[number] ? "" : ends_[number].error().message;
  }

  fakes::LoopThread& thread_;
  std::unique_ptr<BootstrapConnection> connection_;  // used on the loop
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BootstrapMessage> messages_;
  std::vector<Status> ends_;
};

/// A listener whose registered peers can be waited for.
class ListenerRig {
 public:
  explicit ListenerRig(fakes::LoopThread& thread) : thread_(thread) {}
  ~ListenerRig() { Close(); }
  ListenerRig(const ListenerRig&) = delete;
  ListenerRig& operator=(const ListenerRig&) = delete;

  Status Listen(BootstrapListener::Options options) {
    options.host = "127.0.0.1";
    return thread_.Do([&]() -> Status {
      auto listener = ListenForBootstrap(thread_.loop(), options);
      if (!listener) {
        return tl::make_unexpected(listener.error());
      }
      listener_ = std::move(*listener);
      port_ = listener_->port();
      return {};
    });
  }
  void Take() {
    thread_.Do([this] {
      listener_->Take([this](BootstrapIncoming incoming) {
        const std::lock_guard lock(mutex_);
        incoming_.push_back(std::move(incoming));
        changed_.notify_all();
      });
      return true;
    });
  }
  std::unique_ptr<Peer> Dial() { return Peer::Dial("127.0.0.1:" + std::to_string(port_)); }
  /// The next registered peer.
  std::optional<BootstrapIncoming> Next() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return !incoming_.empty(); });
    if (incoming_.empty()) {
      return std::nullopt;
    }
    BootstrapIncoming first = std::move(incoming_.front());
    incoming_.pop_front();
    return first;
  }
  /// A registered peer comes, and is closed on the loop, where it belongs.
  bool Comes() {
    auto incoming = Next();
    return thread_.Do([&incoming] { return std::exchange(incoming, std::nullopt).has_value(); });
  }
  BootstrapListenerCounts counts() {
    return thread_.Do([this] { return listener_->counts(); });
  }
  /// Until the listener has counted so; looks again with each turn of the loop.
  template <class Reached>
  bool WaitUntil(Reached reached) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!reached(counts())) {
      if (std::chrono::steady_clock::now() > limit) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }
  void Close() {
    thread_.Do([this] {
      listener_.reset();
      const std::lock_guard lock(mutex_);
      incoming_.clear();
      return true;
    });
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  fakes::LoopThread& thread_;
  std::unique_ptr<BootstrapListener> listener_;  // used on the loop
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BootstrapIncoming> incoming_;
};

}  // namespace understudy::transport
