// The client against sockets that do what a test says.
#include "transport/etcd/http_client.h"

#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport::etcd {
namespace {

using Reply = Result<HttpReply>;

constexpr char kBody[] = "{\"question\":1}";
constexpr char kYes[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes";

std::string Quote(const Reply& reply) {
  return reply ? std::to_string(reply->status) + " " + reply->body : reply.error().message;
}

class HttpClientTest : public ::testing::Test {
 protected:
  HttpClientTest() {
    thread_.Do([this] { client_ = std::make_unique<HttpClient>(thread_.loop()); });
  }
  ~HttpClientTest() override {
    thread_.Do([this] { client_.reset(); });
  }

  std::future<Reply> Post(HttpClient::Call call) {
    auto promise = std::make_shared<std::promise<Reply>>();
    auto future = promise->get_future();
    thread_.Do([&] {
      client_->Post(std::move(call),
                    [promise](Reply reply) { promise->set_value(std::move(reply)); });
    });
    return future;
  }
  std::future<Reply> Post() { return Post(CallTo(listener_.address())); }

  static HttpClient::Call CallTo(const std::string& address) {
    HttpClient::Call call;
    call.url = "http://" + address + "/v3/x";
    call.body = kBody;
    call.timeout = std::chrono::minutes(1);
    return call;
  }

  /// One whole request of Post(), with `fields` at the end of its header.
  void ReadRequest(Peer& peer, const std::string& fields = {}) const {
    const std::string want = "POST /v3/x HTTP/1.1\r\nHost: " + listener_.address() +
                             "\r\nAccept: */*\r\nContent-Type: application/json\r\n"
                             "Content-Length: 14\r\n" +
                             fields + "\r\n" + kBody;
    EXPECT_EQ(peer.Read(want.size()), want);
  }

  /// A connection that was used once and is kept.
  std::unique_ptr<Peer> Used() {
    auto reply = Post();
    auto peer = listener_.Accept();
    ReadRequest(*peer);
    peer->Send(kYes);
    EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
    return peer;
  }

  PeerListener listener_;
  fakes::LoopThread thread_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientTest, AConnectionIsUsedAgain) {
  const auto peer = Used();
  for (int i = 0; i < 3; ++i) {
    auto reply = Post();
    ReadRequest(*peer);
    peer->Send(kYes);
    EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
  }
}

TEST_F(HttpClientTest, AConnectionTheServerWantsClosedIsClosed) {
  auto reply = Post();
  const auto peer = listener_.Accept();
  ReadRequest(*peer);
  peer->Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nyes");
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
  EXPECT_EQ(peer->ReadToEnd(), Peer::End::kFin);
  Used();
}

TEST_F(HttpClientTest, BytesNobodyAskedForEndAKeptConnection) {
  const auto peer = Used();
  peer->Send("HTTP/1.1 408 Request Timeout\r\n\r\n");
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
  Used();
}

TEST_F(HttpClientTest, ACallOnAConnectionThatDiedAtRestIsSentOnceMore) {
  auto first = Used();
  auto reply = Post();
  ReadRequest(*first);
  first->Close();
  auto second = listener_.Accept();
  ReadRequest(*second);
  second->Send(kYes);
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
}

TEST_F(HttpClientTest, TheRepetitionIsNotRepeated) {
  auto first = Used();
  auto reply = Post();
  ReadRequest(*first);
  first->Reset();
  auto second = listener_.Accept();
  ReadRequest(*second);
  second->Close();
  EXPECT_EQ(fakes::Await(std::move(reply)).error().code, Errc::kUnavailable);
}

TEST_F(HttpClientTest, AnAnswerThatHadBegunIsNotAskedForAgain) {
  auto peer = Used();
  auto reply = Post();
  ReadRequest(*peer);
  peer->Send("H");
  peer->Close();
  EXPECT_EQ(fakes::Await(std::move(reply)).error().code, Errc::kUnavailable);
}

TEST_F(HttpClientTest, AFreshConnectionWithoutAnAnswerIsAnError) {
  auto reply = Post();
  auto peer = listener_.Accept();
  ReadRequest(*peer);
  peer->Close();
  EXPECT_EQ(fakes::Await(std::move(reply)).error().code, Errc::kUnavailable);
}

TEST_F(HttpClientTest, AnAnswerWithoutALengthEndsWithTheConnection) {
  auto reply = Post();
  auto peer = listener_.Accept();
  ReadRequest(*peer);
  peer->Send("HTTP/1.1 200 OK\r\n\r\nall of it");
  peer->Close();
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 all of it");
}

TEST_F(HttpClientTest, SomethingThatIsNotHttpIsUnavailable) {
  auto reply = Post();
  auto peer = listener_.Accept();
  peer->Send("INFO {\"server\":\"nats\"}\r\n");
  const Reply outcome = fakes::Await(std::move(reply));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Errc::kUnavailable);
  EXPECT_EQ(outcome.error().message, "not an HTTP/1.1 answer: 'INFO {\"server\":\"nats\"}'");
}

TEST_F(HttpClientTest, ARefusalIsReadAlthoughTheRequestWasNot) {
  auto call = CallTo(listener_.address());
  call.body = std::string(32U << 20, 'x');  // more than sockets hold
  auto reply = Post(std::move(call));
  auto peer = listener_.Accept();
  peer->Send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "413 no");
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing) << "half a request is on it";
}

TEST_F(HttpClientTest, CallsUnderWayHaveConnectionsOfTheirOwnAndFewAreKept) {
  constexpr std::size_t kCalls = HttpClient::kConnectionsKept + 2;
  std::vector<std::future<Reply>> replies;
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::size_t i = 0; i < kCalls; ++i) {
    replies.push_back(Post());
    peers.push_back(listener_.Accept());
  }
  for (std::size_t i = 0; i < kCalls; ++i) {
    ReadRequest(*peers[i]);
    peers[i]->Send(kYes);
    EXPECT_EQ(Quote(fakes::Await(std::move(replies[i]))), "200 yes");
  }
  EXPECT_EQ(peers[0]->ReadToEnd(), Peer::End::kFin);
  EXPECT_EQ(peers[1]->ReadToEnd(), Peer::End::kFin);
  auto reply = Post();
  ReadRequest(*peers.back());
  peers.back()->Send(kYes);
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
}

TEST_F(HttpClientTest, SilenceEndsWithATimeoutAndTheConnection) {
  auto call = CallTo(listener_.address());
  call.timeout = std::chrono::milliseconds(20);
  auto reply = Post(std::move(call));
  const auto peer = listener_.Accept();
  EXPECT_EQ(fakes::Await(std::move(reply)).error().code, Errc::kTimeout);
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
}

TEST_F(HttpClientTest, NobodyThereIsUnavailable) {
  std::string address;
  { address = PeerListener().address(); }
  EXPECT_EQ(fakes::Await(Post(CallTo(address))).error().code, Errc::kUnavailable);
  // Refused by the resolver before it asks anybody.
  EXPECT_EQ(fakes::Await(Post(CallTo("nobody..invalid:1"))).error().code, Errc::kUnavailable);
  EXPECT_EQ(fakes::Await(Post(CallTo("user:password@host:1"))).error().code, Errc::kInvalidConfig);
}

TEST_F(HttpClientTest, LocalhostIsFoundWhicheverAddressListens) {
  auto reply = Post(CallTo("localhost:" + std::to_string(listener_.port())));
  auto peer = listener_.Accept();
  peer->Send(kYes);
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
}

TEST_F(HttpClientTest, SendsTheTokenAndRefusesOneThatWouldAddLines) {
  auto call = CallTo(listener_.address());
  call.authorization = "token.1";
  auto reply = Post(call);
  auto peer = listener_.Accept();
  peer->Send(kYes);
  EXPECT_EQ(Quote(fakes::Await(std::move(reply))), "200 yes");
  ReadRequest(*peer, "Authorization: token.1\r\n");
  call.authorization = "token\r\nEvil: 1";
  EXPECT_EQ(fakes::Await(Post(call)).error().code, Errc::kMalformed);
}

TEST_F(HttpClientTest, TooManyCallsAreRefused) {
  std::vector<std::future<Reply>> replies;
  for (std::size_t i = 0; i < HttpClient::kCallsMax; ++i) {
    replies.push_back(Post());
  }
  EXPECT_EQ(fakes::Await(Post()).error().code, Errc::kOverloaded);
  thread_.Do([this] { client_.reset(); });  // with all of them under way
  for (auto& reply : replies) {
    EXPECT_THROW(static_cast<void>(fakes::Await(std::move(reply))), std::future_error)
        << "done was dropped, not called";
  }
}

TEST_F(HttpClientTest, DoneMayDestroyTheClient) {
  std::promise<Reply> promise;
  auto other = Post();
  auto other_peer = listener_.Accept();
  thread_.Do([&] {
    client_->Post(CallTo(listener_.address()), [&](Reply reply) {
      client_.reset();
      promise.set_value(std::move(reply));
    });
  });
  auto peer = listener_.Accept();
  peer->Send(kYes);
  EXPECT_EQ(Quote(fakes::Await(promise.get_future())), "200 yes");
  EXPECT_NE(peer->ReadToEnd(), Peer::End::kNothing);
  EXPECT_NE(other_peer->ReadToEnd(), Peer::End::kNothing);
  EXPECT_THROW(static_cast<void>(fakes::Await(std::move(other))), std::future_error);
}

}  // namespace
}  // namespace understudy::transport::etcd
