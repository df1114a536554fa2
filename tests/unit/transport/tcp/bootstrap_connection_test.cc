// A registered rendezvous connection, and how the decode side gets there: rows M-132, M-141, M-142,
// M-145, M-148.
#include "tests/unit/transport/tcp/bootstrap_rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

class BootstrapConnectionTest : public ::testing::Test {
 protected:
  /// What on_open said: "" = open.
  std::string Dial(const BootstrapTarget& target) {
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    thread_.Do([&] {
      client_.Adopt(DialBootstrap(
          thread_.loop(), target, kRigIdentity, Registration(), [promise](Status status) {
            promise->set_value(std::move(status));
          }));
      return true;
    });
    const Status status = fakes::Await(std::move(future));
    return status ? "" : status.error().message;
  }
  /// A client that is connected to a peer of the test.
  void Connect() {
    EXPECT_EQ(Dial({"127.0.0.1", listener_.port()}), "");
    peer_ = listener_.Accept();
    ASSERT_NE(peer_, nullptr);
    const std::string opening = Opening();
    EXPECT_EQ(peer_->Read(opening.size()), opening) << "M-132";
    client_.Start();
  }

  LoopThread thread_;
  PeerListener listener_;
  Talk client_{thread_};
  std::unique_ptr<Peer> peer_;
};

TEST(BootstrapAddress, M145_IPv6IsPutInBrackets) {
  EXPECT_EQ(AddressText({"::1", 1234}), "[::1]:1234");
  EXPECT_EQ(AddressText({"[::1]", 1234}), "[::1]:1234");
  EXPECT_EQ(AddressText({"127.0.0.1", 1234}), "127.0.0.1:1234");
  EXPECT_EQ(AddressText({"prefill-0", 1}), "prefill-0:1");
}

TEST_F(BootstrapConnectionTest, M132_TheClientSaysHeaderAndRegistrationFirst) {
  Connect();
  EXPECT_TRUE(client_.Send(BootstrapActionAck{1, BootstrapActionAck::Outcome::kAccepted, ""}));
  const std::string frame =
      Framed(BootstrapActionAck{1, BootstrapActionAck::Outcome::kAccepted, ""});
  EXPECT_EQ(peer_->Read(frame.size()), frame);
  peer_->Send(Framed(BootstrapRegistered()) + Framed(BootstrapComplete()));
  EXPECT_EQ(client_.Next(), BootstrapMessage(BootstrapRegistered()));
  EXPECT_EQ(client_.Next(), BootstrapMessage(BootstrapComplete()));
}

TEST_F(BootstrapConnectionTest, M145_NamesAndIPv6AddressesAreDialled) {
  EXPECT_EQ(Dial({"localhost", listener_.port()}), "");
  const PeerListener six(/*v6=*/true);
  Talk other(thread_);
  for (const char* host : {"::1", "[::1]"}) {
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    thread_.Do([&] {
      other.Adopt(DialBootstrap(thread_.loop(),
                                {host, six.port()},
                                kRigIdentity,
                                Registration(),
                                [promise](Status status) { promise->set_value(status); }));
      return true;
    });
    EXPECT_TRUE(fakes::Await(std::move(future))) << host;
  }
}

TEST_F(BootstrapConnectionTest, ErrorsOfTheSystemAreShownAsTheReferenceShowsThem) {
  std::uint16_t free_port = 0;
  {
    const PeerListener gone;
    free_port = gone.port();
  }
  EXPECT_EQ(Dial({"127.0.0.1", free_port}), "Connection refused (os error 111)");
  const std::string text = Dial({"no-such-host.invalid", 1});
  EXPECT_TRUE(text.starts_with("failed to lookup address information: ")) << text;
}

TEST_F(BootstrapConnectionTest, AConnectThatTakesTooLongIsGivenUp) {
  BootstrapTarget target{"127.0.0.1", listener_.port()};
  target.connect_timeout = Nanoseconds(1);
  const std::string text = Dial(target);
  EXPECT_TRUE(text.empty() ||
              text == "bootstrap connect timeout to 127.0.0.1:" + std::to_string(listener_.port()))
      << text;
  target.host = "192.0.2.1";  // nobody has it
  target.port = 1;
  const std::string nobody = Dial(target);
  EXPECT_TRUE(nobody == "bootstrap connect timeout to 192.0.2.1:1" ||
              nobody.find("(os error ") != std::string::npos)
      << nobody;
}

TEST_F(BootstrapConnectionTest, ADialThatIsDroppedTellsNobody) {
  thread_.Do([&] {
    auto dialled = DialBootstrap(thread_.loop(),
                                 {"127.0.0.1", listener_.port()},
                                 kRigIdentity,
                                 Registration(),
                                 [](const Status&) { FAIL(); });
    dialled.reset();
    return true;
  });
  const auto peer = listener_.Accept();
  if (peer != nullptr) {
    EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
  }
}

TEST_F(BootstrapConnectionTest, ThePeersEndIsToldOnce) {
  Connect();
  peer_->Close();
  EXPECT_EQ(client_.End(), "");
  EXPECT_EQ(client_.Send(BootstrapComplete()).error().message, "channel closed");
}

TEST_F(BootstrapConnectionTest, AResetIsTheSystemsError) {
  Connect();
  peer_->Reset();
  EXPECT_EQ(client_.End(), "Connection reset by peer (os error 104)");
}

TEST_F(BootstrapConnectionTest, AFrameCutOffIsAnError) {
  Connect();
  peer_->Send(Framed(BootstrapRegistered()).substr(0, 30));
  peer_->HalfClose();
  EXPECT_EQ(client_.End(), "bytes remaining on stream");
}

TEST_F(BootstrapConnectionTest, M141_AChangedIdentityIsRefused) {
  Connect();
  BootstrapIdentity other = kRigIdentity;
  other.room = 8;
  peer_->Send(Framed(BootstrapRegistered()) + Framed(BootstrapComplete(), other) +
              Framed(BootstrapAbort{"never seen"}));
  EXPECT_EQ(client_.Next(), BootstrapMessage(BootstrapRegistered()));
  EXPECT_EQ(client_.End(), "bootstrap frame changed session identity");
  const BootstrapMessage why = BootstrapAbort{"bootstrap frame changed session identity"};
  EXPECT_TRUE(client_.Send(why)) << "who lies is still told";
  EXPECT_EQ(peer_->Read(Framed(why).size()), Framed(why));
  client_.Destroy();
  EXPECT_EQ(peer_->ReadToEnd(), Peer::End::kFin);
}

TEST_F(BootstrapConnectionTest, APeerThatLiesAndLeavesIsNotWaitedFor) {
  Connect();
  peer_->Send(std::string("\x02\0\0\0{]", 6));
  EXPECT_EQ(client_.End(), "bootstrap frame contains malformed JSON");
  peer_->Reset();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (client_.Send(BootstrapComplete())) {  // until the kernel knows of the reset
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }
  const std::string told = client_.SecondEnd();
  EXPECT_TRUE(told.find("(os error ") != std::string::npos) << told;
}

TEST_F(BootstrapConnectionTest, BadFramesEndTheConnection) {
  const std::pair<std::string, std::string> kBad[] = {
      {std::string(4, '\0'), "bootstrap received an empty frame"},
      {std::string("\x02\0\0\0{]", 6), "bootstrap frame contains malformed JSON"},
      {std::string("\x01\0\x01\0", 4), "frame size too big"},
  };
  for (const auto& [bytes, text] : kBad) {
    Talk client(thread_);
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    thread_.Do([&] {
      client.Adopt(DialBootstrap(thread_.loop(),
                                 {"127.0.0.1", listener_.port()},
                                 kRigIdentity,
                                 Registration(),
                                 [promise](Status status) { promise->set_value(status); }));
      return true;
    });
    ASSERT_TRUE(fakes::Await(std::move(future)));
    const auto peer = listener_.Accept();
    client.Start();
    peer->Send(bytes);
    EXPECT_EQ(client.End(), text);
  }
}

TEST_F(BootstrapConnectionTest, AFloodOfMessagesIsReadInTurns) {
  Connect();
  std::string flood;
  constexpr int kMany = 2000;
  for (int i = 0; i < kMany; ++i) {
    flood += Framed(
        BootstrapActionAck{static_cast<std::uint64_t>(i), BootstrapActionAck::Outcome::kNoop, ""});
  }
  std::thread sender([&] { peer_->Send(flood); });
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto message = client_.Next();
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<BootstrapActionAck>(*message).action_id, i);
  }
  sender.join();
}

TEST_F(BootstrapConnectionTest, M142_ATooLongMessageIsRefusedAndTheConnectionGoesOn) {
  Connect();
  const Status refused = client_.Send(BootstrapAbort{std::string(65536, 'x')});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("outside"), std::string::npos);
  EXPECT_TRUE(client_.Send(BootstrapComplete()));
  const std::string frame = Framed(BootstrapComplete());
  EXPECT_EQ(peer_->Read(frame.size()), frame);
}

TEST(BootstrapSlowPeer, FramesBeyondTheQueueAreRefusedAndTheOldestIsGivenUpInTime) {
  LoopThread thread;
  PeerListener listener(/*v6=*/false, /*receive_buffer=*/4096);
  Talk client(thread);
  auto promise = std::make_shared<std::promise<Status>>();
  auto future = promise->get_future();
  BootstrapTarget target{"127.0.0.1", listener.port()};
  target.send_timeout = std::chrono::milliseconds(100);
  thread.Do([&] {
    client.Adopt(DialBootstrap(
        thread.loop(), target, kRigIdentity, Registration(), [promise](Status status) {
          promise->set_value(status);
        }));
    return true;
  });
  ASSERT_TRUE(fakes::Await(std::move(future)));
  const auto peer = listener.Accept();  // who never reads
  client.Start();
  // In one turn of the loop, so that the time for the first of them cannot pass meanwhile.
  const Status last = client.Do([](BootstrapConnection& connection) {
    const BootstrapMessage large = BootstrapAbort{std::string(60000, 'x')};
    Status sent;
    for (int i = 0; i < 1000 && sent; ++i) {
      sent = connection.Send(large);
    }
    return sent;
  });
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Errc::kOverloaded);
  EXPECT_EQ(last.error().message, "no available capacity");
  EXPECT_EQ(client.End(), "bootstrap send timed out");
}

TEST_F(BootstrapConnectionTest, WrittenIsToldWhenTheKernelHasTheFrame) {
  Connect();
  auto written = std::make_shared<std::promise<void>>();
  client_.Do([&](BootstrapConnection& connection) {
    return connection.Send(BootstrapComplete(), Task([written] { written->set_value(); }));
  });
  fakes::Await(written->get_future());
  const std::string frame = Framed(BootstrapComplete());
  EXPECT_EQ(peer_->Read(frame.size()), frame);
}

TEST_F(BootstrapConnectionTest, M148_TwoMessagesBackToBackLeaveWithoutWaitingForAnAck) {
  Connect();
  client_.Do([](BootstrapConnection& connection) {
    EXPECT_TRUE(connection.Send(BootstrapRegistered()));
    EXPECT_TRUE(connection.Send(BootstrapComplete()));
    return true;
  });
  const std::string both = Framed(BootstrapRegistered()) + Framed(BootstrapComplete());
  EXPECT_EQ(peer_->Read(both.size()), both);
  EXPECT_GE(peer_->DataSegmentsIn(), 3U) << "the opening, and a segment for each message";
}

TEST(BootstrapPending, TheEndOfAPeerThatIsNotReadIsSeen) {
  LoopThread thread;
  ListenerRig rig(thread);
  ASSERT_TRUE(rig.Listen({}));
  rig.Take();
  const auto peer = rig.Dial();
  peer->Send(Opening());
  auto incoming = rig.Next();
  ASSERT_TRUE(incoming);
  Talk talk(thread);
  thread.Do([&] {
    talk.Adopt(std::move(incoming->connection));
    return true;
  });
  EXPECT_FALSE(talk.Do([](BootstrapConnection& c) { return c.PeerClosed(); }));
  peer->Close();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!talk.Do([](BootstrapConnection& c) { return c.PeerClosed(); })) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }
  talk.Start();
  EXPECT_EQ(talk.End(), "");
}

}  // namespace
}  // namespace understudy::transport
