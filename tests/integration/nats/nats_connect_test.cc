// Getting in, and being kept out.
#include "tests/fakes/server_process.h"
#include "tests/integration/nats/nats_peer.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;
using fakes::ServerProcess;

/// The outcome of a first connection attempt to a server with `arguments`.
Status Connect(const std::vector<std::string>& arguments, NatsOptions options) {
  auto server = ServerProcess::Nats(arguments);
  EXPECT_TRUE(server) << server.error().message;
  options.url = (*server)->url();
  LoopThread thread;
  TestClient client(thread, options);
  return client.Start();
}

TEST(NatsLogin, SendsUserAndUserWhenNothingIsSet) {
  const auto in = Connect({"--user", "user", "--pass", "user"}, {});
  EXPECT_TRUE(in) << in.error().message;
}

TEST(NatsLogin, AWrongPasswordIsRefusedForGood) {
  NatsOptions options;
  options.user = "me";
  options.password = "wrong";
  const auto in = Connect({"--user", "me", "--pass", "right"}, options);
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kInvalidConfig);
  EXPECT_NE(in.error().message.find("uthorization"), std::string::npos) << in.error().message;
  EXPECT_NE(in.error().message.find("nats://127.0.0.1:"), std::string::npos) << in.error().message;
  EXPECT_EQ(in.error().message.find("wrong"), std::string::npos) << "the password is in the text";
}

TEST(NatsLogin, TheRightPasswordGetsIn) {
  NatsOptions options;
  options.user = "me";
  options.password = "right";
  EXPECT_TRUE(Connect({"--user", "me", "--pass", "right"}, options));
}

TEST(NatsLogin, TheRightTokenGetsIn) {
  NatsOptions options;
  options.token = "secret";
  EXPECT_TRUE(Connect({"--auth", "secret"}, options));
}

TEST(NatsLogin, AWrongTokenIsRefusedForGood) {
  NatsOptions options;
  options.token = "guess";
  const auto in = Connect({"--auth", "secret"}, options);
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kInvalidConfig);
}

TEST(NatsLogin, UserAndPasswordWinOverTheToken) {
  NatsOptions options;
  options.user = "me";
  options.password = "x";
  options.token = "secret";
  const auto in = Connect({"--auth", "secret"}, options);  // as the reference: measured
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kInvalidConfig);
}

TEST(NatsLogin, AnEmptyTokenCountsAsSet) {
  NatsOptions options;
  options.token = "";
  const auto in = Connect({"--user", "user", "--pass", "user"}, options);
  ASSERT_FALSE(in) << "user/user was sent";
  EXPECT_EQ(in.error().code, Errc::kInvalidConfig);
}

TEST(NatsLogin, AUserWithoutPasswordIsIgnored) {
  NatsOptions options;
  options.user = "me";
  EXPECT_TRUE(Connect({"--user", "user", "--pass", "user"}, options));
}

TEST(NatsConnect, NobodyThereIsUnavailable) {
  const auto port = fakes::FreePort();
  ASSERT_TRUE(port);
  LoopThread thread;
  TestClient client(thread, "nats://127.0.0.1:" + std::to_string(*port));
  const auto in = client.Start();
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kUnavailable);
  EXPECT_NE(in.error().message.find(std::to_string(*port)), std::string::npos)
      << in.error().message;
  EXPECT_EQ(client.Count(TestClient::Event::kConnectFailed), 1);
}

class BadUrl : public ::testing::TestWithParam<const char*> {};
TEST_P(BadUrl, IsInvalidConfigWithItsText) {
  LoopThread thread;
  TestClient client(thread, GetParam());
  const auto in = client.Start();
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kInvalidConfig);
  EXPECT_NE(in.error().message.find("NATS_SERVER"), std::string::npos) << in.error().message;
}
INSTANTIATE_TEST_SUITE_P(Forms,
                         BadUrl,
                         ::testing::Values("",
                                           "localhost:4222",
                                           "http://localhost",
                                           "tls://localhost:4222",
                                           "nats://",
                                           ",",
                                           "nats://a:1,foo"));

TEST(NatsConnect, TakesTheNextUrlWhenTheFirstIsDead) {
  const auto port = fakes::FreePort();
  ASSERT_TRUE(port);
  auto server = ServerProcess::Nats();
  ASSERT_TRUE(server) << server.error().message;
  LoopThread thread;
  TestClient client(thread, "nats://127.0.0.1:" + std::to_string(*port) + ", " + (*server)->url());
  const auto in = client.Start();
  EXPECT_TRUE(in) << in.error().message;
}

TEST(NatsConnect, AServerThatSaysNothingIsUnavailable) {
  PeerListener silent;
  LoopThread thread;
  NatsOptions options;
  options.url = "nats://" + silent.address();
  options.connect_timeout = std::chrono::milliseconds(100);
  TestClient client(thread, options);
  const auto in = client.Start();
  ASSERT_FALSE(in);
  EXPECT_EQ(in.error().code, Errc::kUnavailable);
}

/// A server that is fine so far, and then falls silent: the library's own timeout does not end this
/// one.
constexpr const char* kInfo =
    "INFO "
    "{\"server_id\":\"f\",\"version\":\"2.9.10\",\"proto\":1,\"host\":\"127.0.0.1\",\"port\":4222,"
    "\"max_payload\":1048576}\r\n";

class BadGreeting : public ::testing::TestWithParam<const char*> {};
TEST_P(BadGreeting, IsAFailedConnectAndNothingWorse) {
  PeerListener listener;
  LoopThread thread;
  NatsOptions options;
  options.url = "nats://" + listener.address();
  options.connect_timeout = std::chrono::milliseconds(500);
  TestClient client(thread, options);
  auto outcome = client.BeginStart();
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Send(GetParam());
  EXPECT_FALSE(fakes::Await(std::move(outcome)));
}
INSTANTIATE_TEST_SUITE_P(Forms,
                         BadGreeting,
                         ::testing::Values("\r\n",
                                           "HTTP/1.1 400 Bad Request\r\n\r\n",
                                           "INFO\r\n",
                                           "INFO {\r\n",
                                           "INFO {\"port\":\"x\"}\r\n-ERR 'no'\r\n",
                                           "+OK\r\n",
                                           kInfo,
                                           "PING\r\n"));

TEST(NatsConnect, DestroyingAClientIsBoundedWhenTheServerFellSilent) {
  PeerListener listener;
  LoopThread thread;
  NatsOptions options;
  options.url = "nats://" + listener.address();
  options.connect_timeout = std::chrono::hours(1);
  TestClient client(thread, options);
  auto outcome = client.BeginStart();
  const auto peer = listener.Accept();
  ASSERT_NE(peer, nullptr);
  peer->Send(kInfo);
  ASSERT_NE(peer->Read(1), "");  // CONNECT is here: it waits for our PONG
  client.Destroy();
}

TEST(NatsConnect, DestroyingAClientThatConnectsLeavesNothing) {
  PeerListener silent;
  LoopThread thread;
  NatsOptions options;
  options.url = "nats://" + silent.address();
  options.connect_timeout = std::chrono::milliseconds(50);
  std::size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    {
      TestClient client(thread, options);
      auto outcome = client.BeginStart();
      const auto peer = silent.Accept();  // it is inside Connect
      ASSERT_NE(peer, nullptr);
    }
    thread.Do([] {});
    if (i == 2) {
      before = OpenDescriptors();
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(NatsConnect, AClientThatIsDestroyedBeforeItsCloseEndedHearsNothingMore) {
  auto server = ServerProcess::Nats();
  ASSERT_TRUE(server) << server.error().message;
  LoopThread thread;
  thread.Do([&] {
    NatsOptions options;
    options.url = (*server)->url();
    const auto client = NatsClient::New(thread.loop(), options);
    client->Start([](const Status&) { FAIL(); });
    client->Close(std::chrono::seconds(1), [] { FAIL(); });
  });
  thread.Do([] {});
}

/// The connection comes up on the helper thread while the owner has closed already.
TEST(NatsConnect, AConnectionThatComesTooLateIsClosed) {
  auto server = ServerProcess::Nats();
  ASSERT_TRUE(server) << server.error().message;
  LoopThread thread;
  std::size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    {
      TestClient client(thread, (*server)->url());
      auto never = client.BeginStart();
      client.Close(std::chrono::seconds(1));
    }
    thread.Do([] {});  // what the helper had posted has run
    if (i == 2) {
      before = OpenDescriptors();
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace understudy::transport
