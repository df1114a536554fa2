// Servers that die, hang, or talk nonsense.
#include "tests/fakes/server_process.h"
#include "tests/integration/nats/connected_client.h"
#include "tests/integration/nats/nats_peer.h"

#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;
using fakes::ServerProcess;
using Event = TestClient::Event;
using std::chrono::milliseconds;

class NatsFaults : public ConnectedClient {};

/// Every payload can be checked alone: its length and the letter it is made of follow from its
/// number.
std::string Marked(int number) {
  const auto size = 200 + static_cast<std::size_t>(number % 97) * 31;
  return std::to_string(number) + ":" + std::string(size, static_cast<char>('a' + number % 26));
}

TEST_F(NatsFaults, TwentyKilledServersAreSurvivedWithTheSameThreadsAndDescriptors) {
  TestClient sender(thread_, server_->url());
  ASSERT_TRUE(sender.Start());
  Inbox inbox;
  client_->Subscribe("load", inbox);
  ASSERT_TRUE(client_->Flush());
  std::mt19937 random(20);
  std::size_t threads = 0;
  std::size_t descriptors = 0;
  int number = 0;
  for (int round = 0; round < 20; ++round) {
    for (auto n = random() % 400; n > 0; --n) {
      ASSERT_TRUE(sender.Publish("load", Marked(number++)));
    }
    server_->Kill();  // wherever it is
    ASSERT_TRUE(client_->WaitConnected(false));
    ASSERT_TRUE(sender.WaitConnected(false));
    const auto down = sender.Publish("load", "x");
    ASSERT_FALSE(down);
    EXPECT_EQ(down.error().code, Errc::kUnavailable);
    ASSERT_TRUE(server_->Restart());
    ASSERT_TRUE(client_->WaitConnected(true));
    ASSERT_TRUE(sender.WaitConnected(true));
    ASSERT_TRUE(client_->Flush()) << "its subscription is not back";
    inbox.Clear();
    ASSERT_TRUE(sender.Publish("load", Marked(number)));
    const auto got = inbox.WaitFor(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].payload, Marked(number));
    ++number;
    if (round == 2) {
      threads = Threads();
      descriptors = OpenDescriptors();
    }
  }
  EXPECT_EQ(Threads(), threads);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(client_->Count(Event::kDropped), 20);
  EXPECT_EQ(client_->Count(Event::kConnected), 21);
}

TEST_F(NatsFaults, WhatArrivesAroundAKillIsNeverCorrupted) {
  TestClient sender(thread_, server_->url());
  ASSERT_TRUE(sender.Start());
  Inbox inbox;
  client_->Subscribe("load", inbox);
  ASSERT_TRUE(client_->Flush());
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2000; ++i) {
      if (!sender.Publish("load", Marked(i))) {
        break;
      }
    }
    server_->Kill();
    ASSERT_TRUE(server_->Restart());
    ASSERT_TRUE(client_->WaitConnected(true));
    ASSERT_TRUE(sender.WaitConnected(true));
  }
  ASSERT_TRUE(client_->Flush());
  for (const auto& message : inbox.WaitFor(1)) {
    EXPECT_EQ(message.payload, Marked(std::stoi(message.payload)));
  }
}

TEST_F(NatsFaults, ABacklogBeyondTheLimitIsRefusedAndDrainsLater) {
  Inbox inbox;
  client_->Subscribe("load", inbox);
  ASSERT_TRUE(client_->Flush());
  server_->Pause();
  const std::string payload(64U << 10, 'x');
  std::size_t taken = 0;
  Status last;
  while (taken < 1000 && (last = client_->Publish("load", payload))) {
    ++taken;
  }
  ASSERT_FALSE(last) << "64 MB were taken";
  EXPECT_EQ(last.error().code, Errc::kOverloaded);
  EXPECT_TRUE(client_->Do([](NatsClient& client) { return client.connected(); }));
  server_->Resume();
  EXPECT_EQ(inbox.WaitFor(taken).size(), taken);
  EXPECT_TRUE(client_->Publish("load", payload));
  EXPECT_EQ(inbox.WaitFor(taken + 1).size(), taken + 1);
}

TEST_F(NatsFaults, CloseIsBoundedWhileTheServerIsStopped) {
  server_->Pause();
  while (client_->Publish("load", std::string(64U << 10, 'x'))) {
  }
  client_->Close(milliseconds(100));  // ends, though the server answers nothing
  client_->Destroy();
  server_->Resume();
}

TEST_F(NatsFaults, DestroyingIsBoundedWhileTheServerIsStopped) {
  server_->Pause();
  while (client_->Publish("load", std::string(64U << 10, 'x'))) {
  }
  client_->Destroy();
  server_->Resume();
}

TEST_F(NatsFaults, CloseIsBoundedWhileTheServerIsGone) {
  server_->Kill();
  ASSERT_TRUE(client_->WaitConnected(false));
  client_->Close(milliseconds(100));
  client_->Destroy();
}

TEST_F(NatsFaults, CloseWritesWhatWasPublished) {
  TestClient other(thread_, server_->url());
  ASSERT_TRUE(other.Start());
  Inbox inbox;
  other.Subscribe("last.words", inbox);
  ASSERT_TRUE(other.Flush());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(client_->Publish("last.words", std::to_string(i)));
  }
  client_->Close(std::chrono::seconds(30));
  EXPECT_EQ(inbox.WaitFor(50).size(), 50U);
}

TEST_F(NatsFaults, NoHandlerRunsAfterClose) {
  TestClient other(thread_, server_->url());
  ASSERT_TRUE(other.Start());
  Inbox inbox;
  client_->Subscribe("late", inbox);
  ASSERT_TRUE(client_->Flush());
  server_->Pause();
  ASSERT_TRUE(other.Publish("late", "x"));
  client_->Close(milliseconds(50));  // its limit ends it: the server has not answered
  server_->Resume();
  ASSERT_TRUE(other.Flush());
  client_->Do([](NatsClient&) {});
  EXPECT_EQ(inbox.size(), 0U);
}

TEST_F(NatsFaults, AFlushThatTimedOutDoesNotEndTheNextOneEarly) {
  TestClient reader(thread_, server_->url());
  ASSERT_TRUE(reader.Start());
  Inbox inbox;
  reader.Subscribe("between", inbox);
  ASSERT_TRUE(reader.Flush());
  ASSERT_TRUE(client_->Flush());
  for (int round = 0; round < 5; ++round) {
    inbox.Clear();
    server_->Pause();
    const auto late = client_->Flush(milliseconds(20));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::kTimeout);
    constexpr std::size_t kMessages = 90;
    for (std::size_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(client_->Publish("between", std::string(10'000, 'x')));
    }
    auto second = client_->BeginFlush(std::chrono::seconds(30));
    server_->Resume();
    ASSERT_TRUE(fakes::Await(std::move(second)));  // the server has processed the ninety
    ASSERT_TRUE(reader.Flush());
    EXPECT_EQ(inbox.size(), kMessages);
  }
}

TEST_F(NatsFaults, FlushSaysThatTheConnectionWasLost) {
  server_->Pause();
  auto flush = client_->BeginFlush(std::chrono::seconds(50));
  server_->Kill();
  const auto status = fakes::Await(std::move(flush));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kUnavailable);
  const auto down = client_->Flush(std::chrono::seconds(50));
  ASSERT_FALSE(down);
  EXPECT_EQ(down.error().code, Errc::kUnavailable);
}

TEST_F(NatsFaults, AnOwnerThatGoesWithFlushesUnderWayHearsNothingMore) {
  server_->Pause();
  bool called = false;
  client_->Do([&](NatsClient& client) {
    client.Flush(milliseconds(20), [&](const Status&) { called = true; });
  });
  client_->Destroy();
  std::promise<void> later;
  std::unique_ptr<Timer> timer;
  thread_.Do([&] {
    timer = thread_.loop().NewTimer();
    timer->After(milliseconds(40), [&] { later.set_value(); });
  });
  fakes::Await(later.get_future());
  EXPECT_FALSE(thread_.Do([&] { return called; }));
  thread_.Do([&] { timer.reset(); });
  server_->Resume();
}

/// A worker's life, two hundred times, with messages on their way at every step.
TEST_F(NatsFaults, TwoHundredLivesWithMessagesInFlight) {
  const auto raw = Peer::Dial("127.0.0.1:" + std::to_string(server_->port()));
  ASSERT_NE(raw, nullptr);
  raw->Send("CONNECT {\"verbose\":false}\r\n");
  std::string block;
  for (int i = 0; i < 50; ++i) {
    block += "PUB serve answers 5\r\nhello\r\n";
  }
  std::size_t threads = 0;
  std::size_t descriptors = 0;
  for (int life = 0; life < 200; ++life) {
    {
      TestClient worker(thread_, server_->url());
      ASSERT_TRUE(raw->Send(block));
      const auto started = worker.Start();
      ASSERT_TRUE(started) << started.error().message;
      int served = 0;
      std::promise<void> first;
      worker.Do([&](NatsClient& client) {
        client.Subscribe("serve", "q", [&](const NatsMessage& message) {
          if (++served == 1) {
            first.set_value();
          }
          static_cast<void>(client.Publish(std::string(message.reply), message.payload));
        });
      });
      ASSERT_TRUE(worker.Flush());
      ASSERT_TRUE(raw->Send(block));
      fakes::Await(first.get_future());
      ASSERT_TRUE(raw->Send(block));
      if (life % 20 != 0) {
        worker.Close(std::chrono::seconds(10));
      }
      worker.Destroy();  // every twentieth without Close: the library then waits half a second
    }
    if (life == 10) {
      thread_.Do([] {});
      threads = Threads();
      descriptors = OpenDescriptors();
    }
  }
  thread_.Do([] {});
  EXPECT_EQ(Threads(), threads);
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

}  // namespace
}  // namespace understudy::transport
