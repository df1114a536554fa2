// The frontend's side of response connections.
#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"
#include "understudy/transport/response_stream.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

class ResponseListenerTest : public ::testing::Test {
 protected:
  void Listen(const std::string& host) {
    thread_.Do([&] {
      auto listener =
          ListenForResponses(thread_.loop(), host, [this](const ResponseListener::Peer& peer) {
            const std::lock_guard lock(mutex_);
            last_ = peer.connection;
            if (peer.bytes.empty()) {
              ++closed_;
            }
            got_[peer.connection].append(peer.bytes);
            changed_.notify_all();
          });
      ASSERT_TRUE(listener) << listener.error().message;
      listener_ = std::move(*listener);
    });
    ASSERT_NE(listener_, nullptr);
  }
  void TearDown() override {
    thread_.Do([this] { listener_.reset(); });
  }
  /// The connection that has said `bytes` in all; 0 = none within a minute.
  std::uint64_t WaitFor(const std::string& bytes) {
    std::unique_lock lock(mutex_);
    std::uint64_t found = 0;
    changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      for (const auto& [id, text] : got_) {
        found = text == bytes ? id : found;
      }
      return found != 0;
    });
    return found;
  }
  bool WaitForClosed(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return closed_ == count; });
  }

  LoopThread thread_;
  std::unique_ptr<ResponseListener> listener_;  // used on the loop
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::string> got_;
  std::uint64_t last_ = 0;
  int closed_ = 0;
};

TEST_F(ResponseListenerTest, HandsOverBytesAndTheEnd) {
  Listen("127.0.0.1");
  const auto peer = Peer::Dial(listener_->address());
  ASSERT_NE(peer, nullptr);
  peer->Send("hello");
  EXPECT_NE(WaitFor("hello"), 0U);
  peer->Close();
  EXPECT_TRUE(WaitForClosed(1));
}

TEST_F(ResponseListenerTest, ListensOnIpv6WithABracketedAddress) {
  Listen("::1");
  EXPECT_EQ(listener_->address().rfind("[::1]:", 0), 0U);
  const auto peer = Peer::Dial(listener_->address());
  ASSERT_NE(peer, nullptr);
  peer->Send("six");
  EXPECT_NE(WaitFor("six"), 0U);
}

TEST_F(ResponseListenerTest, SendReachesItsConnectionOnly) {
  Listen("127.0.0.1");
  const auto one = Peer::Dial(listener_->address());
  const auto two = Peer::Dial(listener_->address());
  one->Send("one");
  two->Send("two");
  const auto first = WaitFor("one");
  const auto second = WaitFor("two");
  ASSERT_NE(first, 0U);
  ASSERT_NE(second, 0U);
  thread_.Do([&] {
    listener_->Send(first, "to one");
    listener_->Send(second, "to two");
    listener_->Send(999, "to nobody");
  });
  EXPECT_EQ(one->Read(6), "to one");
  EXPECT_EQ(two->Read(6), "to two");
}

TEST_F(ResponseListenerTest, CloseConnectionClosesItAtOnce) {
  Listen("127.0.0.1");
  const auto peer = Peer::Dial(listener_->address());
  peer->Send("hello");
  const auto id = WaitFor("hello");
  thread_.Do([&] {
    listener_->Send(id, "bye");
    listener_->CloseConnection(id);
    listener_->CloseConnection(id);
  });
  std::string rest;
  EXPECT_EQ(peer->ReadToEnd(&rest), Peer::End::kFin);
  EXPECT_EQ(rest, "bye");
}

TEST_F(ResponseListenerTest, DestroyingItClosesItsConnections) {
  Listen("127.0.0.1");
  const auto peer = Peer::Dial(listener_->address());
  peer->Send("hello");
  ASSERT_NE(WaitFor("hello"), 0U);
  thread_.Do([&] { listener_.reset(); });
  EXPECT_EQ(peer->ReadToEnd(), Peer::End::kFin);
}

TEST_F(ResponseListenerTest, RefusesWhatIsNoAddress) {
  thread_.Do([&] {
    const auto listener =
        ListenForResponses(thread_.loop(), "localhost", [](const ResponseListener::Peer&) {});
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().code, Errc::kInvalidConfig);
    EXPECT_NE(listener.error().message.find("'localhost'"), std::string::npos);
  });
}

TEST_F(ResponseListenerTest, RefusesAnAddressOfAnotherMachine) {
  thread_.Do([&] {
    const auto listener =
        ListenForResponses(thread_.loop(), "192.0.2.1", [](const ResponseListener::Peer&) {});
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().code, Errc::kUnavailable);
  });
}

}  // namespace
}  // namespace understudy::transport
