// Messages through a real nats-server: publish, subscribe, flush, limits.
#include "tests/fakes/server_process.h"
#include "tests/integration/nats/connected_client.h"
#include "tests/integration/nats/nats_peer.h"

#include <fstream>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;
using fakes::ServerProcess;

class NatsMessages : public ConnectedClient {};

TEST_F(NatsMessages, ArriveInOrderWithSubjectReplyAndPayload) {
  Inbox inbox;
  ASSERT_NE(client_->Subscribe("a.*", inbox), 0U);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(client_->Publish("a.b", std::to_string(i), i % 2 == 0 ? "answer.here" : ""));
  }
  const auto got = inbox.WaitFor(500);
  ASSERT_EQ(got.size(), 500U);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].payload, std::to_string(i));
    EXPECT_EQ(got[i].subject, "a.b");
    EXPECT_EQ(got[i].reply, i % 2 == 0 ? "answer.here" : "");
  }
}

TEST_F(NatsMessages, KeepBinaryAndEmptyPayloads) {
  Inbox inbox;
  client_->Subscribe("bytes", inbox);
  const std::string binary("\0\r\n\xFF PING\r\n", 11);
  ASSERT_TRUE(client_->Publish("bytes", binary));
  ASSERT_TRUE(client_->Publish("bytes", ""));
  const auto got = inbox.WaitFor(2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].payload, binary);
  EXPECT_EQ(got[1].payload, "");
}

TEST_F(NatsMessages, FlushReturnsWhenTheServerHasEverything) {
  TestClient other(thread_, server_->url());
  ASSERT_TRUE(other.Start());
  Inbox inbox;
  other.Subscribe("news", inbox);
  ASSERT_TRUE(other.Flush());  // the subscription is effective
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client_->Publish("news", "x"));
  }
  ASSERT_TRUE(client_->Flush());
  ASSERT_TRUE(other.Flush());  // what the server has forwarded is here
  EXPECT_EQ(inbox.size(), 100U);
}

TEST_F(NatsMessages, ShowTheirHeaders) {
  Inbox inbox;
  client_->Subscribe("with.header", inbox);
  ASSERT_TRUE(client_->Flush());
  const auto raw = Peer::Dial("127.0.0.1:" + std::to_string(server_->port()));
  ASSERT_NE(raw, nullptr);
  const std::string header = "NATS/1.0\r\nx-word: hello there\r\n\r\n";
  raw->Send("CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB with.header " +
            std::to_string(header.size()) + " " + std::to_string(header.size() + 4) + "\r\n" +
            header + "body\r\nPING\r\n");
  const auto got = inbox.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "body");
  EXPECT_EQ(got[0].word, "hello there");
  EXPECT_FALSE(got[0].status);
}

TEST_F(NatsMessages, AnswerNoRespondersWhenNobodyListens) {
  Inbox inbox;
  const auto reply = client_->Do([](NatsClient& client) { return client.NewInbox(); });
  client_->Subscribe(reply, inbox);
  ASSERT_TRUE(client_->Publish("nobody.here", "question", reply));
  const auto got = inbox.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "");
  EXPECT_EQ(got[0].status, "503");
}

TEST_F(NatsMessages, OfAQueueGroupGoToOneMember) {
  TestClient other(thread_, server_->url());
  ASSERT_TRUE(other.Start());
  Inbox mine;
  Inbox theirs;
  client_->Subscribe("work", mine, "q");
  other.Subscribe("work", theirs, "q");
  ASSERT_TRUE(client_->Flush());
  ASSERT_TRUE(other.Flush());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(client_->Publish("work", std::to_string(i)));
  }
  ASSERT_TRUE(client_->Flush());
  ASSERT_TRUE(other.Flush());
  ASSERT_TRUE(client_->Flush());
  std::set<std::string> seen;
  for (auto* inbox : {&mine, &theirs}) {
    for (const auto& message : inbox->WaitFor(0)) {
      EXPECT_TRUE(seen.insert(message.payload).second) << message.payload << " came twice";
    }
  }
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_GT(mine.size(), 0U);
  EXPECT_GT(theirs.size(), 0U);
}

TEST_F(NatsMessages, StopAfterUnsubscribe) {
  Inbox inbox;
  const auto id = client_->Subscribe("stop", inbox);
  ASSERT_TRUE(client_->Publish("stop", "1"));
  ASSERT_EQ(inbox.WaitFor(1).size(), 1U);
  client_->Do([&](NatsClient& client) {
    client.Unsubscribe(id);
    client.Unsubscribe(id);
    client.Unsubscribe(999);
  });
  ASSERT_TRUE(client_->Publish("stop", "2"));
  ASSERT_TRUE(client_->Flush());
  EXPECT_EQ(inbox.size(), 1U);
}

TEST_F(NatsMessages, ARetiredSubscriptionHandlesWhatWasSentBefore) {
  constexpr std::size_t kMessages = 1000;  // more than a wake of the loop takes
  Inbox inbox;
  const auto id = client_->Subscribe("retired", inbox);
  std::promise<std::size_t> handled;
  client_->Do([&](NatsClient& client) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(client.Publish("retired", {}, {}));
    }
    client.Retire(id, [&] { handled.set_value(inbox.size()); });
  });
  EXPECT_EQ(handled.get_future().get(), kMessages);
  ASSERT_TRUE(client_->Publish("retired", "late"));
  ASSERT_TRUE(client_->Flush());
  EXPECT_EQ(inbox.size(), kMessages);
}

TEST_F(NatsMessages, RetiringWithoutASubscriptionOrLinkIsOverAtOnce) {
  Inbox inbox;
  const auto id = client_->Subscribe("twice", inbox);
  std::promise<void> first, second, third;
  client_->Do([&](NatsClient& client) {
    client.Retire(999, [&] { first.set_value(); });
    client.Retire(id, [&] { second.set_value(); });
    client.Retire(id, [&] { third.set_value(); });
  });
  for (auto* over : {&first, &second, &third}) {
    over->get_future().get();
  }
}

TEST_F(NatsMessages, MayChangeSubscriptionsFromAHandler) {
  Inbox later;
  std::promise<void> handled;
  client_->Do([&](NatsClient& client) {
    auto id = std::make_shared<NatsClient::SubscriptionId>(0);
    *id = client.Subscribe("first", {}, [&, id](const NatsMessage&) {
      client.Unsubscribe(*id);
      client.Subscribe("second", {}, later.Handler());
      handled.set_value();  // a second call would throw
    });
  });
  ASSERT_TRUE(client_->Publish("first", "1"));
  ASSERT_TRUE(client_->Publish("first", "2"));
  fakes::Await(handled.get_future());
  ASSERT_TRUE(client_->Publish("second", "3"));
  const auto got = later.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].payload, "3");
}

TEST_F(NatsMessages, AreNotLostInABurstOfSmallOnes) {
  Inbox inbox;
  client_->Subscribe("burst", inbox);
  ASSERT_TRUE(client_->Flush());
  constexpr std::size_t kCount =
      300'000;  // several times what the library would hold for a subscription
  const auto raw = Peer::Dial("127.0.0.1:" + std::to_string(server_->port()));
  ASSERT_NE(raw, nullptr);
  raw->Send("CONNECT {\"verbose\":false}\r\n");
  std::string block;
  for (int i = 0; i < 1000; ++i) {
    block += "PUB burst 1\r\nx\r\n";
  }
  for (std::size_t sent = 0; sent < kCount; sent += 1000) {
    ASSERT_TRUE(raw->Send(block));
  }
  EXPECT_EQ(inbox.WaitFor(kCount).size(), kCount);
  EXPECT_EQ(client_->Do([](NatsClient& client) { return client.messages_dropped(); }), 0U);
}

class BadSubject : public NatsMessages, public ::testing::WithParamInterface<const char*> {};

TEST_P(BadSubject, IsRefusedAndTheConnectionStays) {
  const std::string subject = GetParam();
  Inbox inbox;
  EXPECT_EQ(client_->Subscribe(subject, inbox), 0U);
  const auto published = client_->Publish(subject, "x");
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Errc::kMalformed);
  const auto replied = client_->Publish("good", "x", subject.empty() ? " " : subject);
  ASSERT_FALSE(replied);
  EXPECT_EQ(replied.error().code, Errc::kMalformed);
  EXPECT_TRUE(client_->Flush());
  EXPECT_EQ(client_->Count(TestClient::Event::kDropped), 0);
}
INSTANTIATE_TEST_SUITE_P(
    Forms,
    BadSubject,
    ::testing::Values("", " ", "a b", "a\tb", "a\r\nPUB x 1", ".a", "a.", "a..b", "a\nb"));

TEST_F(NatsMessages, RefuseSubscriptionsThatTheServerWouldEndTheConnectionFor) {
  Inbox inbox;
  EXPECT_EQ(client_->Subscribe("a.>.b", inbox), 0U);
  EXPECT_EQ(client_->Subscribe(">.b", inbox), 0U);
  EXPECT_EQ(client_->Subscribe("a", inbox, "bad queue"), 0U);
  EXPECT_NE(client_->Subscribe("a.>", inbox), 0U);
  EXPECT_NE(client_->Subscribe("a.*.b", inbox), 0U);
  EXPECT_TRUE(client_->Flush());
  EXPECT_EQ(client_->Count(TestClient::Event::kDropped), 0);
}

TEST(NatsLimits, APayloadOverTheServersLimitIsRefusedAndTheConnectionStays) {
  const fakes::TempDir dir;
  const auto path = dir.path() + "/nats.conf";
  std::ofstream(path) << "max_payload: 5000\n";
  auto server = ServerProcess::Nats({"-c", path});
  ASSERT_TRUE(server) << server.error().message;
  LoopThread thread;
  TestClient client(thread, (*server)->url());
  ASSERT_TRUE(client.Start());
  EXPECT_EQ(client.Do([](NatsClient& c) { return c.payload_bytes_max(); }), 5000);
  Inbox inbox;
  client.Subscribe("big", inbox);
  const auto refused = client.Publish("big", std::string(5001, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kMalformed);
  EXPECT_NE(refused.error().message.find("5001"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("5000"), std::string::npos) << refused.error().message;
  ASSERT_TRUE(client.Publish("big", std::string(5000, 'x')));
  EXPECT_EQ(inbox.WaitFor(1).size(), 1U);
  EXPECT_EQ(client.Count(TestClient::Event::kDropped), 0);
}

}  // namespace
}  // namespace understudy::transport
