// Durable events over a real nats-server with JetStream.
#include "tests/fakes/server_process.h"
#include "tests/integration/nats/nats_peer.h"
#include "understudy/transport/durable_events.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using fakes::ServerProcess;
using nlohmann::json;

class DurableTest : public ::testing::Test {
 protected:
  void StartServer(bool jet_stream) {
    std::vector<std::string> extra;
    if (jet_stream) {
      extra = {"-js", "-sd", folder_.path()};
    }
    auto server = ServerProcess::Nats(std::move(extra));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    client_ = std::make_unique<TestClient>(thread_, server_->url());
    ASSERT_TRUE(client_->Start());
    client_->Do([this](NatsClient& nats) {
      durable_ = NewDurableEvents(thread_.loop(), nats, {"my_ns", "backend", "generate"}, 60);
    });
  }
  void TearDown() override {
    thread_.Do([this] { durable_.reset(); });
  }
  Status Open() {
    return thread_.Ask<Status>([this](auto done) { durable_->Open(done); });
  }
  Status Publish(const std::string& payload) {
    return thread_.Do([&] { return durable_->Publish(payload); });
  }
  bool WaitAcknowledged() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (thread_.Do([this] { return durable_->unacknowledged(); }) != 0) {
      if (std::chrono::steady_clock::now() > end) {
        return false;
      }
    }
    return true;
  }
  /// An answer of the server's JetStream API.
  json Api(const std::string& what, const std::string& body = "") {
    Inbox inbox;
    const auto reply = client_->Do([](NatsClient& nats) { return nats.NewInbox(); });
    client_->Subscribe(reply, inbox);
    EXPECT_TRUE(client_->Publish("$JS.API." + what, body, reply));
    const auto got = inbox.WaitFor(1);
    return got.empty() ? json() : json::parse(got[0].payload);
  }
  std::uint64_t Stored() { return Api("STREAM.INFO." + kStream)["state"]["messages"]; }

  const std::string kStream = "namespace-my-ns-component-backend-kv-events";
  fakes::TempDir folder_;
  std::unique_ptr<ServerProcess> server_;
  fakes::LoopThread thread_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<DurableEvents> durable_;
};

TEST_F(DurableTest, MakesTheStreamAsTheReferenceDoesAndStoresPayloadsAsTheyAre) {
  StartServer(true);
  const auto open = Open();
  ASSERT_TRUE(open) << open.error().message;
  const json config = Api("STREAM.INFO." + kStream)["config"];
  EXPECT_EQ(config["subjects"], json({kStream + ".*"}));
  EXPECT_EQ(config["retention"], "limits");
  EXPECT_EQ(config["storage"], "file");
  EXPECT_EQ(config["max_age"], 60'000'000'000U);
  Inbox live;
  client_->Subscribe(kStream + ".>", live);
  ASSERT_TRUE(client_->Flush());
  ASSERT_TRUE(Publish(R"({"a":1})"));
  ASSERT_TRUE(WaitAcknowledged());
  EXPECT_EQ(Stored(), 1U);
  const auto got = live.WaitFor(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].subject, kStream + ".kv-events");
  EXPECT_EQ(got[0].payload, R"({"a":1})");
}

TEST_F(DurableTest, TakesAStreamThatIsThere) {
  StartServer(true);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(Publish("{}"));
  ASSERT_TRUE(WaitAcknowledged());
  ASSERT_TRUE(Open());
  EXPECT_EQ(Stored(), 1U);
}

TEST_F(DurableTest, SaysThatTheServerHasNoJetStream) {
  StartServer(false);
  const auto open = Open();
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Errc::kInvalidConfig);
  EXPECT_EQ(open.error().message, "the NATS server has no JetStream (option -js)");
}

TEST_F(DurableTest, StoresManyInOrder) {
  StartServer(true);
  ASSERT_TRUE(Open());
  constexpr std::size_t kMessages = 3 * DurableEvents::kInFlightMax;
  thread_.Do([&] {
    for (std::size_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(durable_->Publish(std::to_string(i)));
    }
  });
  ASSERT_TRUE(WaitAcknowledged());
  EXPECT_EQ(Stored(), kMessages);
  const auto last = Api("STREAM.MSG.GET." + kStream, R"({"seq":12288})")["message"]["data"];
  EXPECT_EQ(last, "MTIyODc=");  // 12287
}

TEST_F(DurableTest, KeepsEventsOverARestartOfTheServer) {
  StartServer(true);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(Publish("1"));
  ASSERT_TRUE(WaitAcknowledged());
  server_->Kill();
  ASSERT_TRUE(client_->WaitConnected(false));
  ASSERT_TRUE(Publish("2"));
  ASSERT_TRUE(Publish("3"));
  ASSERT_TRUE(server_->Restart());
  ASSERT_TRUE(client_->WaitConnected(true));
  thread_.Do([this] { durable_->Resend(); });
  ASSERT_TRUE(WaitAcknowledged());
  EXPECT_EQ(Stored(), 3U);
}

}  // namespace
}  // namespace understudy::transport
