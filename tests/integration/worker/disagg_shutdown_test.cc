// Prefill and decode workers that leave in the middle of hand-offs. Source: mission.md A.12;
// M-123 to M-131; U33.
#include "tests/integration/worker/disagg_case.h"

#include <csignal>

namespace understudy::worker {
namespace {

const Arguments kEndlessTransfer = {
    "--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.00001"};

class HandoffShutdown : public HandoffTest {
 protected:
  /// A request whose transfer never ends.
  void HandOver(const Worker& prefill, const Worker& decode) {
    const auto attempt = NewAttempt(BootstrapPort(*prefill));
    source = SendTo(*prefill, attempt);
    destination = SendTo(*decode, attempt, 4);
    ASSERT_TRUE(source->WaitTokens(1));
    ASSERT_TRUE(Eventually([&] { return decode->Metric("understudy_engine_blocks_active") > 0; }));
  }
  CallPtr source, destination;
};

TEST_F(HandoffShutdown, U33APrefillWorkerFinishesItsHandoffsFirst) {
  const auto prefill =
      StartSource({"--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.1"});
  const auto decode = StartDecode();
  HandOver(prefill, decode);  // 0.6 s
  prefill->Signal(SIGTERM);
  ASSERT_TRUE(prefill->WaitErr("Phase 1"));
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
  EXPECT_EQ(destination->WhyNotWhole(4), "");
  EXPECT_EQ(prefill->WaitExit(), 0);
}

TEST_F(HandoffShutdown, U33ADecodeWorkerFinishesItsHandoffsFirst) {
  const auto prefill =
      StartSource({"--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.1"});
  const auto decode = StartDecode();
  HandOver(prefill, decode);
  decode->Signal(SIGTERM);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(destination->WhyNotWhole(4), "");
  EXPECT_EQ(decode->WaitExit(), 0);
  ExpectIdle(*prefill);
}

TEST_F(HandoffShutdown, TheBootstrapPortAnswersWhileThePrefillWorkerDrains) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  source = SendTo(*prefill, attempt);
  ASSERT_TRUE(source->WaitFrame(Kind::kPrologue));
  prefill->Signal(SIGTERM);
  ASSERT_TRUE(prefill->WaitErr("Phase 2"));
  destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(source->WaitClosed() && destination->WaitClosed());
  EXPECT_EQ(source->WhyNotWhole(1), "");
  EXPECT_EQ(destination->WhyNotWhole(4), "");
  EXPECT_EQ(prefill->WaitExit(), 0);
  EXPECT_FALSE(BootstrapPeer::Dial(attempt.info.port, attempt.identity()));
}

// M-125: the engine takes back what is held, the other side is told, and the client's stream is
// closed as it is, so that its frontend tries again elsewhere.
TEST_F(HandoffShutdown, M125_ASecondSignalAbortsWhatAPrefillWorkerHandsOver) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  ASSERT_NE(peer->ReceiveUntil("Action"), "closed");
  const auto waiting = SendTo(*prefill, NewAttempt(attempt.info.port));
  ASSERT_TRUE(waiting->WaitFrame(Kind::kPrologue));
  prefill->Signal(SIGTERM);
  ASSERT_TRUE(prefill->WaitErr("Phase 2"));
  prefill->Signal(SIGTERM);
  EXPECT_EQ(peer->ReceiveUntil("Abort"), R"(Abort { message: "mocker is shutting down" })");
  for (const auto& call : {source, waiting}) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_NE(call->kinds().back(), Kind::kSentinel);
    EXPECT_EQ(call->error(), "");
  }
  EXPECT_EQ(prefill->WaitExit(), 0);
  EXPECT_EQ(prefill->CountErr("hand-offs are not over"), 0U);
}

TEST_F(HandoffShutdown, M124_ParticipantsThatWaitAreToldAtTheDrainLimit) {
  environment["DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"] = "1";
  const auto prefill = StartSource();
  const auto port = BootstrapPort(*prefill);
  const auto waiting = SendTo(*prefill, NewAttempt(port));
  ASSERT_TRUE(waiting->WaitFrame(Kind::kPrologue));
  const auto alone = NewAttempt(port);
  const auto peer = BootstrapPeer::Dial(port, alone.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 2));
  prefill->Signal(SIGTERM);
  EXPECT_EQ(peer->ReceiveUntil("ProtocolError"),
            R"(ProtocolError { message: "handoff manager is shutting down" })");
  EXPECT_TRUE(peer->WaitClosed());
  EXPECT_EQ(prefill->WaitExit(), 0);
  EXPECT_TRUE(Records("mdc").empty());
}

// M-126.
TEST_F(HandoffShutdown, M126_ASecondSignalEndsTheSessionsOfADecodeWorker) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto decode = StartDecode();
  HandOver(prefill, decode);
  decode->Signal(SIGTERM);
  ASSERT_TRUE(decode->WaitErr("Phase 2"));
  decode->Signal(SIGTERM);
  ASSERT_TRUE(destination->WaitClosed());
  EXPECT_NE(destination->kinds().back(), Kind::kSentinel);
  EXPECT_EQ(decode->WaitExit(), 0);
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->error(), "destination disconnected");
  ExpectIdle(*prefill);
}

// M-131.
TEST_F(HandoffShutdown, M131_HalfOpenConnectionsDoNotHoldItUp) {
  const auto prefill = StartSource();
  const auto before = prefill->sockets();
  const auto peer = BootstrapPeer::Dial(BootstrapPort(*prefill), {});
  ASSERT_TRUE(peer);
  ASSERT_TRUE(Eventually([&] { return prefill->sockets() > before; }));
  prefill->Signal(SIGTERM);
  EXPECT_EQ(prefill->WaitExit(), 0);
  EXPECT_TRUE(peer->WaitClosed());
}

TEST_F(HandoffShutdown, UnderLoadExitsWithZeroAndLeavesNothingAtTheOtherSide) {
  for (const bool of_prefill : {true, false}) {
    const auto prefill = StartSource(kFree);
    const auto decode = StartDecode(kFree);
    std::vector<CallPtr> calls;
    for (int i = 0; i < 64; ++i) {
      const auto attempt = NewAttempt(BootstrapPort(*prefill));
      calls.push_back(SendTo(*prefill, attempt));
      calls.push_back(SendTo(*decode, attempt, 2000));
    }
    ASSERT_TRUE(calls.front()->WaitFrame(Kind::kPrologue));
    auto& leaving = of_prefill ? *prefill : *decode;
    leaving.Signal(SIGTERM);
    leaving.Signal(SIGINT);  // at once to the limit
    EXPECT_EQ(leaving.WaitExit(), 0) << leaving.err();
    for (const auto& call : calls) {
      if (call->connections() > 0) {
        ASSERT_TRUE(call->WaitClosed());
        EXPECT_EQ(call->problem(), "");
      }
    }
    if (of_prefill) {  // a source whose partner never came waits for the end of the rendezvous
      ExpectIdle(*decode);
    }
  }
}

}  // namespace
}  // namespace understudy::worker
