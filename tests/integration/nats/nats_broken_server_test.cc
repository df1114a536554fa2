// A server played byte by byte: what a real one would say only in bad luck.
#include "tests/integration/nats/nats_peer.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;
using Event = TestClient::Event;

class NatsBrokenServer : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = std::make_unique<TestClient>(thread_, "nats://" + listener_.address());
    auto started = client_->BeginStart();
    client_->Subscribe("s", inbox_);
    link_ = Welcome();
    ASSERT_NE(link_, nullptr);
    const auto status = fakes::Await(std::move(started));
    ASSERT_TRUE(status) << status.error().message;
    sid_ = SidOf(link_->ReadLine("SUB s"));
    ASSERT_FALSE(sid_.empty());
  }
  std::unique_ptr<FakeServerLink> Welcome() {
    auto peer = listener_.Accept();
    if (peer == nullptr) {
      return nullptr;
    }
    auto link = std::make_unique<FakeServerLink>(std::move(peer));
    return link->Welcome() ? std::move(link) : nullptr;
  }
  static std::string SidOf(const std::string& line) { return line.substr(line.rfind(' ') + 1); }
  /// The client comes back by itself, and its subscription with it.
  void ExpectReconnect() {
    link_ = Welcome();
    ASSERT_NE(link_, nullptr);
    sid_ = SidOf(link_->ReadLine("SUB s"));
    ASSERT_FALSE(sid_.empty());
    ASSERT_TRUE(client_->WaitConnected(true));
    EXPECT_EQ(client_->Count(Event::kDropped), 1);
  }

  PeerListener listener_;
  LoopThread thread_;
  Inbox inbox_;
  std::unique_ptr<FakeServerLink> link_;
  std::string sid_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(NatsBrokenServer, AMessageCutByTheEndOfTheLinkIsDroppedWhole) {
  link_->Send("MSG s " + sid_ + " 5\r\nfirst\r\nMSG s " + sid_ + " 20\r\nhalf of");
  ASSERT_EQ(inbox_.WaitFor(1).size(), 1U);
  link_->peer().Reset();
  ExpectReconnect();
  link_->Send("MSG s " + sid_ + " 6\r\nsecond\r\n");
  const auto got = inbox_.WaitFor(2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].payload, "first");
  EXPECT_EQ(got[1].payload, "second");
}

TEST_F(NatsBrokenServer, AMessageInSingleBytesArrivesWhole) {
  for (const char byte : "MSG s " + sid_ + " answer.to 5\r\nhello\r\n") {
    ASSERT_TRUE(link_->Send({&byte, 1}));
    thread_.Do([] {});
  }
  const auto got = inbox_.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "hello");
  EXPECT_EQ(got[0].reply, "answer.to");
}

TEST_F(NatsBrokenServer, AMessageForNobodyIsSkipped) {
  link_->Send("MSG other 9999 3\r\nfoo\r\nMSG s " + sid_ + " 3\r\nbar\r\n");
  const auto got = inbox_.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "bar");
}

class NonsenseWord : public NatsBrokenServer, public ::testing::WithParamInterface<const char*> {};
TEST_P(NonsenseWord, EndsTheLinkAndTheClientComesBack) {
  link_->Send(GetParam());
  ExpectReconnect();
  link_->Send("MSG s " + sid_ + " 2\r\nok\r\n");
  const auto got = inbox_.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "ok");
}
INSTANTIATE_TEST_SUITE_P(Words,
                         NonsenseWord,
                         ::testing::Values("HELLO\r\n",
                                           "MSG s\r\n",
                                           "MSG s 1 -5\r\n",
                                           "MSG s 1 abc\r\n",
                                           "-ERR 'Slow Consumer'\r\n",
                                           "-ERR 'Maximum Payload Violation'\r\n",
                                           "-ERR 'Stale Connection'\r\n",
                                           "HMSG s 1 9 5\r\nhello\r\n"));

TEST_F(NatsBrokenServer, KeepsTryingWhileConnectsFail) {
  link_->peer().Reset();
  for (int i = 0; i < 3; ++i) {
    auto peer = listener_.Accept();
    ASSERT_NE(peer, nullptr);
    peer->Reset();
  }
  ExpectReconnect();
  EXPECT_GE(client_->Count(Event::kConnectFailed), 3);
}

TEST_F(NatsBrokenServer, AnswersPings) {
  link_->Send("PING\r\n");
  EXPECT_EQ(link_->ReadLine("PONG"), "PONG");
}

}  // namespace
}  // namespace understudy::transport
