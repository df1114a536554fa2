// Admission of rendezvous connections: rows M-136 to M-147, M-131, M-266.
#include "tests/unit/transport/tcp/bootstrap_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;
using Counts = BootstrapListenerCounts;

class BootstrapListenerTest : public ::testing::Test {
 protected:
  /// Says `bytes` and hears nothing but the end.
  void ExpectClosedSilently(const std::string& bytes) {
    const auto peer = rig_.Dial();
    ASSERT_NE(peer, nullptr);
    peer->Send(bytes);
    std::string said;
    EXPECT_NE(peer->ReadToEnd(&said), Peer::End::kNothing);
    EXPECT_EQ(said, "");
  }
  BootstrapListener::Options Options(std::size_t pending_max = 256) {
    BootstrapListener::Options options;
    options.pending_max = pending_max;
    return options;
  }

  LoopThread thread_;
  ListenerRig rig_{thread_};
};

TEST_F(BootstrapListenerTest, ARegisteredPeerIsHandedOver) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  const auto peer = rig_.Dial();
  peer->Send(Opening());
  auto incoming = rig_.Next();
  ASSERT_TRUE(incoming);
  EXPECT_EQ(incoming->identity, kRigIdentity);
  EXPECT_EQ(incoming->registration, Registration());
  Talk talk(thread_);
  thread_.Do([&] {
    talk.Adopt(std::move(incoming->connection));
    return true;
  });
  talk.Start();
  EXPECT_TRUE(talk.Send(BootstrapRegistered()));
  const std::string expected = Framed(BootstrapRegistered());
  EXPECT_EQ(peer->Read(expected.size()), expected);
  EXPECT_EQ(rig_.counts().registered_total, 1U);
}

TEST_F(BootstrapListenerTest, ARegistrationInPiecesWithMoreBehindItIsRead) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  const auto peer = rig_.Dial();
  const std::string bytes = Opening() + Framed(BootstrapAbort{"first"});
  for (const char byte : bytes) {
    peer->Send(std::string_view(&byte, 1));
  }
  auto incoming = rig_.Next();
  ASSERT_TRUE(incoming);
  Talk talk(thread_);
  thread_.Do([&] {
    talk.Adopt(std::move(incoming->connection));
    return true;
  });
  talk.Start();
  EXPECT_EQ(talk.Next(), BootstrapMessage(BootstrapAbort{"first"}));
}

TEST_F(BootstrapListenerTest, M136_BadMagicIsClosedSilently) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  ExpectClosedSilently(std::string("NOPE\x01\0\0\0", 8) + Framed(Registration()));
  EXPECT_EQ(rig_.counts().bad_total, 1U);
  EXPECT_EQ(rig_.counts().registered_total, 0U);
}

TEST_F(BootstrapListenerTest, M137_BadHeadersAndFramesAreClosedSilently) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  ExpectClosedSilently(std::string("DMHF\x02\0\0\0", 8));
  ExpectClosedSilently(std::string("DMHF\x01\0\x01\0", 8));
  ExpectClosedSilently(Header() + std::string("\x01\0\0\0{", 5));
  ExpectClosedSilently(Header() + std::string("\x01\0\x01\0", 4));
  ExpectClosedSilently(Header() + std::string(4, '\0'));
  EXPECT_EQ(rig_.counts().bad_total, 5U);
  EXPECT_EQ(rig_.counts().registered_total, 0U);
}

TEST_F(BootstrapListenerTest, M138_TheFirstFrameMustRegister) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  ExpectClosedSilently(Header() + Framed(BootstrapRegistered()));
}

TEST_F(BootstrapListenerTest, M139_AnotherRoleIsClosedSilently) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  std::string frame = Framed(Registration());
  const std::string role = "Destination";
  frame.replace(frame.find(role), role.size(), "Source     ");
  ExpectClosedSilently(Header() + frame);
}

TEST_F(BootstrapListenerTest, M140_WhoDoesNotRegisterInTimeIsClosed) {
  BootstrapListener::Options options = Options();
  options.registration_timeout = std::chrono::milliseconds(30);
  ASSERT_TRUE(rig_.Listen(options));
  rig_.Take();
  const auto silent = rig_.Dial();
  const auto half = rig_.Dial();
  half->Send(Opening().substr(0, 100));
  EXPECT_EQ(silent->ReadToEnd(), Peer::End::kFin);
  EXPECT_NE(half->ReadToEnd(), Peer::End::kNothing);
  EXPECT_EQ(rig_.counts().timed_out_total, 2U);
}

TEST_F(BootstrapListenerTest, APeerThatLeavesEarlyFreesItsPlace) {
  ASSERT_TRUE(rig_.Listen(Options(1)));
  rig_.Take();
  rig_.Dial()->Close();
  auto half = rig_.Dial();
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.cut_off_total >= 1; }));
  half->Send(Opening().substr(0, 50));
  half->Reset();
  ASSERT_TRUE(rig_.WaitUntil(
      [](const Counts& c) { return c.cut_off_total + c.refused_total + c.dropped_total >= 2; }));
  const auto peer = rig_.Dial();
  peer->Send(Opening());
  EXPECT_TRUE(rig_.Comes());
}

TEST_F(BootstrapListenerTest, M143_AFullQueueIsAnsweredOverloaded) {
  ASSERT_TRUE(rig_.Listen(Options(1)));  // nobody takes
  const auto first = rig_.Dial();
  first->Send(Opening());
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.registered_total == 1; }));
  const auto second = rig_.Dial();
  second->Send(Opening());
  std::string said;
  EXPECT_EQ(second->ReadToEnd(&said), Peer::End::kFin);
  EXPECT_EQ(said, Framed(BootstrapOverloaded()));
  rig_.Take();
  EXPECT_TRUE(rig_.Comes()) << "the first one waited";
  const auto third = rig_.Dial();
  third->Send(Opening());
  EXPECT_TRUE(rig_.Comes());
}

TEST_F(BootstrapListenerTest, M144_HalfOpenPeersFillThePlacesOneRefusalAtATime) {
  ASSERT_TRUE(rig_.Listen(Options(2)));
  rig_.Take();
  const auto a = rig_.Dial();
  const auto b = rig_.Dial();
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.accepted_total == 2; }));
  const auto refused = rig_.Dial();  // takes the only place of a refusal and says nothing yet
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.accepted_total == 3; }));
  const auto dropped = rig_.Dial();
  dropped->Send(Opening());
  EXPECT_NE(dropped->ReadToEnd(), Peer::End::kNothing);
  EXPECT_EQ(rig_.counts().dropped_total, 1U);
  refused->Send(Opening());
  std::string said;
  EXPECT_EQ(refused->ReadToEnd(&said), Peer::End::kFin);
  EXPECT_EQ(said, Framed(BootstrapOverloaded()));
  a->Send(Opening());
  EXPECT_TRUE(rig_.Comes()) << "the half-open ones are still welcome";
  const auto next = rig_.Dial();
  next->Send(Opening());
  EXPECT_TRUE(rig_.Comes());
  EXPECT_EQ(rig_.counts().refused_total, 1U);
}

TEST_F(BootstrapListenerTest, AFloodOfConnectionsIsDroppedAndForgotten) {
  ASSERT_TRUE(rig_.Listen(Options(2)));
  rig_.Take();
  const std::size_t before = OpenDescriptors();
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 100; ++i) {
    peers.push_back(rig_.Dial());
  }
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.accepted_total == 100; }));
  EXPECT_EQ(rig_.counts().dropped_total, 97U);
  peers.clear();
  ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.cut_off_total == 3; }));
  EXPECT_LE(OpenDescriptors(), before);
}

TEST_F(BootstrapListenerTest, M131_ClosingDropsHalfOpenAndUntakenPeers) {
  ASSERT_TRUE(rig_.Listen(Options()));
  const auto half = rig_.Dial();
  const auto untaken = rig_.Dial();
  untaken->Send(Opening());
  ASSERT_TRUE(rig_.WaitUntil(
      [](const Counts& c) { return c.accepted_total == 2 && c.registered_total == 1; }));
  rig_.Close();
  EXPECT_EQ(half->ReadToEnd(), Peer::End::kFin);
  EXPECT_EQ(untaken->ReadToEnd(), Peer::End::kFin);
  EXPECT_EQ(rig_.Dial(), nullptr) << "nobody listens";
}

TEST_F(BootstrapListenerTest, M266_AClosedListenerLeavesThePortToTheNext) {
  ASSERT_TRUE(rig_.Listen(Options()));
  const auto connected = rig_.Dial();
  BootstrapListener::Options same = Options();
  same.port = rig_.port();
  ListenerRig other(thread_);
  const Status taken = other.Listen(same);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message, "Address already in use (os error 98)");
  rig_.Close();
  EXPECT_TRUE(other.Listen(same)) << "although a connection of the old one lingers";
}

TEST_F(BootstrapListenerTest, M147_NoPlacesAtAllIsRefused) {
  const Status status = rig_.Listen(Options(0));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "bootstrap max_pending_connections must be at least one");
  EXPECT_EQ(status.error().code, Errc::kInvalidConfig);
}

TEST_F(BootstrapListenerTest, RefusesAHostThatIsNoAddress) {
  thread_.Do([&] {
    BootstrapListener::Options options;
    options.host = "localhost";
    const auto listener = ListenForBootstrap(thread_.loop(), options);
    EXPECT_FALSE(listener);
    EXPECT_NE(listener.error().message.find("'localhost'"), std::string::npos);
    return true;
  });
}

/// Takes all descriptors of this process until it is destroyed.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
      taken_.push_back(fd);
    }
  }
  ~NoDescriptors() {
    for (const int fd : taken_) {
      ::close(fd);
    }
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST_F(BootstrapListenerTest, M146_WithoutDescriptorsItPausesAndGoesOn) {
  ASSERT_TRUE(rig_.Listen(Options()));
  rig_.Take();
  Peer peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const NoDescriptors none;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(rig_.port());
    ASSERT_EQ(::connect(peer.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    ASSERT_TRUE(rig_.WaitUntil([](const Counts& c) { return c.accept_errors_total >= 2; }));
  }
  peer.Send(Opening());
  EXPECT_TRUE(rig_.Comes());
}

}  // namespace
}  // namespace understudy::transport
