// What a socket got, waited for by the test; and sockets that live on a loop of their own.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "understudy/transport/zmq.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {

/// Filled on the loop, read by the test.
template <class T>
class Inbox {
 public:
  void Add(T item) {
    {
      const std::scoped_lock lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
  /// True as soon as there are `count`, false after `limit`.
  bool WaitFor(std::size_t count, std::chrono::milliseconds limit = std::chrono::minutes(1)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return items_.size() >= count; });
  }
  std::vector<T> Items() {
    const std::scoped_lock lock(mutex_);
    return items_;
  }
  std::size_t size() {
    const std::scoped_lock lock(mutex_);
    return items_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> items_;
};

using Message = std::vector<std::string>;

inline Message Copy(ZmqFrames frames) {
  return {frames.begin(), frames.end()};
}

/// Sends `frames` through any socket that has Send.
template <class Socket>
ZmqSend SendTo(Socket& socket, const Message& frames) {
  const std::vector<std::string_view> views(frames.begin(), frames.end());
  return socket.Send(views);
}

/// Runs `attempt` until `done` holds: for what a connection that is not there yet may swallow.
template <class Attempt, class Done>
void Until(Attempt attempt, Done done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    attempt();
  }
}

class ZmqTest : public ::testing::Test {
 protected:
  ~ZmqTest() override { context_.reset(); }

  /// Runs on the loop.
  template <class F>
  auto Do(F function) {
    return thread_.Do(std::move(function));
  }

  /// Tries until the endpoint is free: libzmq closes a socket that had it a moment after we did.
  std::unique_ptr<ZmqPublisher> Publisher(const std::string& endpoint,
                                          const ZmqLimits& limits = {}) {
    std::unique_ptr<ZmqPublisher> publisher;
    Until(
        [&] {
          Do([&] {
            auto socket = ZmqPublisher::New(context_, limits);
            UNDERSTUDY_ASSERT(socket.has_value());
            if ((*socket)->Bind(endpoint)) {
              publisher = std::move(*socket);
            }
          });
        },
        [&] { return publisher != nullptr; });
    return publisher;
  }
  std::unique_ptr<ZmqSubscriber> Subscriber(const std::string& endpoint,
                                            const std::string& topic,
                                            Inbox<Message>& inbox,
                                            const ZmqLimits& limits = {}) {
    return Do([&] {
      auto socket =
          ZmqSubscriber::New(thread_.loop(), context_, topic, limits, [&inbox](ZmqFrames frames) {
            inbox.Add(Copy(frames));
          });
      UNDERSTUDY_ASSERT(socket.has_value() && (*socket)->Connect(endpoint).has_value());
      return std::move(*socket);
    });
  }

  fakes::LoopThread thread_;
  std::shared_ptr<ZmqContext> context_ = ZmqContext::New();
};

}  // namespace understudy::transport
