// A request that its frontend ends: before the first token, mid-stream, after the last.
// Source: wire.md 6.5, mission.md M-109 to M-114; U34, U35.
#include "tests/integration/worker/worker_test.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <ostream>
#include <sys/socket.h>

namespace understudy::worker {
namespace {

struct Ending {
  const char* name;
  void (*act)(Peer& peer);
  bool is_error;  ///< counted as an error of the response stream
};
void PrintTo(const Ending& value, std::ostream* out) {
  *out << value.name;
}

std::string Frame(std::string_view header, std::string_view body) {
  std::string frame;
  transport::AppendTwoPart(frame, header, body);
  return frame;
}

const Ending kEndings[] = {
    {"Kill", [](Peer& peer) { peer.Send(Frame("\"kill\"", "")); }, false},
    {"Stop", [](Peer& peer) { peer.Send(Frame("\"stop\"", "")); }, false},
    {"StopAndKill",
     [](Peer& peer) { peer.Send(Frame("\"stop\"", "") + Frame("\"kill\"", "")); },
     false},
    {"KillAndFin",
     [](Peer& peer) {
       peer.Send(Frame("\"kill\"", ""));
       peer.HalfClose();
     },
     false},
    {"Fin", [](Peer& peer) { peer.HalfClose(); }, false},
    {"Reset", [](Peer& peer) { peer.Reset(); }, false},
    {"Garbage", [](Peer& peer) { peer.Send(std::string(100, '\xee')); }, true},
    {"Data", [](Peer& peer) { peer.Send(Frame("", "{\"data\":{}}")); }, true},
    {"Sentinel", [](Peer& peer) { peer.Send(Frame("\"sentinel\"", "")); }, true},
    {"UnknownWord", [](Peer& peer) { peer.Send(Frame("\"pause\"", "")); }, true},
    {"LengthOf2To63", [](Peer& peer) { peer.Send("\x80" + std::string(23, '\0') + "more"); }, true},
};

class Cancel : public WorkerTest, public ::testing::WithParamInterface<Ending> {
 protected:
  struct Open {
    CallPtr call;
    std::unique_ptr<Peer> peer;
  };
  Open Dialled(const WorkerProcess& worker, std::uint32_t max_tokens) {
    auto spec = Spec(worker, 100, max_tokens);
    spec.address = listener_.address();
    Open open{frontend().Send(spec), listener_.Accept()};
    EXPECT_TRUE(open.peer);
    return open;
  }
  /// Acts, and expects that the connection ends without a regular end of the stream.
  void ActAndExpectCut(Peer& peer) {
    GetParam().act(peer);
    if (peer.fd() < 0) {
      return;  // reset: nobody is left to read
    }
    std::string rest;
    EXPECT_NE(peer.ReadToEnd(&rest), Peer::End::kNothing);
    EXPECT_EQ(rest.find("complete_final\":true"), std::string::npos);
    EXPECT_EQ(rest.find("sentinel"), std::string::npos);
  }
  void ExpectCleanWorker(const WorkerProcess& worker) {
    EXPECT_TRUE(worker.WaitIdle()) << worker.DumpState();
    EXPECT_EQ(worker.Metric("dynamo_component_cancellation_total"), 1);
    EXPECT_EQ(worker.Metric("dynamo_component_errors_total", "response_stream").value_or(0),
              GetParam().is_error ? 1 : 0);
  }
  PeerListener listener_;
};
INSTANTIATE_TEST_SUITE_P(Endings, Cancel, ::testing::ValuesIn(kEndings), [](const auto& ending) {
  return ending.param.name;
});

TEST_P(Cancel, BeforeTheFirstTokenFreesTheEngine) {
  const auto worker = Start(kCrawling);
  const auto open = Dialled(*worker, 50);
  EXPECT_NE(open.peer->Read(1), "") << "the handshake comes before any token";
  ActAndExpectCut(*open.peer);
  ExpectCleanWorker(*worker);
}

TEST_P(Cancel, MidStreamFreesTheEngineAndTheWorkerServesOn) {
  const auto worker = Start();
  const auto open = Dialled(*worker, kEndless);
  ASSERT_GE(Read(ReadTokens(*open.peer, 3)).tokens.size(), 3U);
  ActAndExpectCut(*open.peer);
  ExpectCleanWorker(*worker);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_P(Cancel, AfterTheLastTokenIsNoCancellation) {
  const auto worker = Start(kFree);
  const auto open = Dialled(*worker, 10);
  std::string bytes;
  while (!Read(bytes).Has(Kind::kSentinel)) {
    const auto more = open.peer->Read(1);
    ASSERT_FALSE(more.empty());
    bytes += more;
  }
  EXPECT_EQ(Read(bytes).tokens.size(), 10U);
  GetParam().act(*open.peer);
  if (open.peer->fd() >= 0) {
    open.peer->HalfClose();  // as a frontend does in the end
  }
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 0);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

class Cancelled : public WorkerTest {};

TEST_F(Cancelled, RequestThatWaitsForASlotLeavesTheQueue) {
  const auto worker = Start(Arguments{"--max-num-seqs", "1"});
  const auto running = Send(*worker, 5, kEndless);
  ASSERT_TRUE(running->WaitTokens(1));
  const auto waiting = Send(*worker, 5, 5);
  ASSERT_TRUE(waiting->WaitFrame(Kind::kPrologue));
  frontend().Control(*waiting, StreamControl::kKill);
  ASSERT_TRUE(waiting->WaitClosed());
  EXPECT_TRUE(worker->WaitMetric("understudy_engine_requests_waiting", 0));
  EXPECT_EQ(worker->Metric("understudy_engine_requests_running"), 1);
  const auto tokens = running->tokens().size();
  EXPECT_TRUE(running->WaitTokens(tokens + 3));
}

TEST_F(Cancelled, RequestBeforeTheEngineHasStartedIsForgotten) {
  const auto worker = Start(Arguments{"--startup-time", "1000"});
  const auto call = Send(*worker, 5, 5);
  ASSERT_TRUE(call->WaitFrame(Kind::kPrologue));
  frontend().Control(*call, StreamControl::kStop);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 1);
}

TEST_F(Cancelled, StreamsBy64FreeEverythingWithAtMostOneLineEach) {
  const auto worker = Start();
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 64; ++i) {
    auto spec = Spec(*worker, 0, kEndless);
    spec.request.token_ids = Prompt(100, i);
    calls.push_back(frontend().Send(spec));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitTokens(5));
  }
  for (const auto& call : calls) {
    frontend().Close(*call);
  }
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 64);
  for (const auto& call : calls) {
    EXPECT_LE(worker->CountErr(call->id()), 1U);
  }
  EXPECT_TRUE(worker->running());
}

class ConnectBack : public WorkerTest {
 protected:
  void ExpectCountedAndNothingLeft(const std::string& address) {
    const auto worker = Start();
    ASSERT_EQ(WhyNotServing(*worker), "");
    const auto descriptors = worker->descriptors();
    auto spec = Spec(*worker, 5, kEndless);
    spec.address = address;
    const auto call = frontend().Send(spec);
    ASSERT_EQ(call->WaitAck(), "");
    EXPECT_TRUE(worker->WaitMetric("dynamo_component_errors_total", 1, "response_stream"));
    EXPECT_TRUE(worker->WaitIdle());
    EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 1);
    EXPECT_EQ(worker->CountErr(call->id()), 1U) << worker->err();
    EXPECT_EQ(WhyNotServing(*worker), "");
    EXPECT_TRUE(Eventually([&] { return worker->descriptors() <= descriptors; }));
  }
};

TEST_F(ConnectBack, ToAClosedPortIsCounted) {
  const auto port = fakes::FreePort();
  ASSERT_TRUE(port);
  ExpectCountedAndNothingLeft("127.0.0.1:" + std::to_string(*port));
}

TEST_F(ConnectBack, ToANameNobodyKnowsIsCounted) {
  ExpectCountedAndNothingLeft("no-such-host.invalid:4000");
}

TEST_F(ConnectBack, ToAnAddressWithoutAPortIsCounted) {
  ExpectCountedAndNothingLeft("127.0.0.1");
}

TEST_F(ConnectBack, ToAPeerThatNeverAcceptsEndsAtTheConnectLimit) {
  PeerListener listener;
  // The kernel completes connections until the backlog (128) is full; after that it is silent.
  std::vector<std::unique_ptr<Peer>> fill;
  const int kMore = 200;
  for (int i = 0; i < kMore; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT_GE(fd, 0);
    fill.push_back(std::make_unique<Peer>(fd));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(listener.port());
    sockaddr generic{};
    std::memcpy(&generic, &to, sizeof(to));
    ASSERT_TRUE(::connect(fd, &generic, sizeof(to)) == 0 || errno == EINPROGRESS);
  }
  ExpectCountedAndNothingLeft(listener.address());
}

TEST_F(ConnectBack, ToAPeerThatReadsNothingAndSaysNothingEndsAtTheFinLimit) {
  const auto worker = Start(kFree);
  PeerListener listener;
  auto spec = Spec(*worker, 5, 20);
  spec.address = listener.address();
  const auto call = frontend().Send(spec);
  const auto peer = listener.Accept();
  ASSERT_TRUE(peer);
  EXPECT_TRUE(worker->WaitMetric("dynamo_component_inflight_requests", 0));
  EXPECT_TRUE(worker->WaitMetric("understudy_response_streams_open", 0));
  std::string bytes;
  EXPECT_NE(peer->ReadToEnd(&bytes), Peer::End::kNothing);
  EXPECT_EQ(Read(bytes).tokens.size(), 20U) << "what was sent before is still there to read";
}

TEST_F(ConnectBack, ToAPeerThatNeverReadsALongStreamEndsAtTheBacklogLimit) {
  const auto worker = Start(kFree);
  PeerListener listener(false, 4096);
  auto spec = Spec(*worker, 5, kEndless);  // some 75 MB
  spec.address = listener.address();
  const auto call = frontend().Send(spec);
  const auto peer = listener.Accept();
  ASSERT_TRUE(peer);
  EXPECT_TRUE(worker->WaitMetric("dynamo_component_errors_total", 1, "publish_response"));
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 1);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

}  // namespace
}  // namespace understudy::worker
