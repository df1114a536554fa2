// The prefill side of a hand-off: rows M-175 to M-188.
#include "worker/handoff/source_session.h"

#include "tests/unit/worker/handoff/handoff_fakes.h"

namespace understudy::worker {
namespace {

using mocker::handoff::Order;
using std::chrono::milliseconds;
using std::chrono::seconds;
using AckKind = transport::BootstrapActionAck::Outcome;
using Mode = engine::TransferTiming::Mode;
using transport::BootstrapAbort;
using transport::BootstrapMessage;

class SourceSessionTest : public SessionTest {
 protected:
  void Begin(Order order = Order::kSourceFirst, Nanoseconds timeout = milliseconds(1500)) {
    const SessionPlace place{loop_, clock_, timeout};
    SourceParticipant source;
    source.identity = kIdentity;
    source.order = order;
    source.handoff = MakeHandoff(script_);
    source.handoff.permit = *permits_.Take(0);
    source.completion = [this](Status status) {
      ++completions_;
      completion_ = status ? "ok" : status.error().message;
      closed_before_completion_ = wire_->closed && permits_.taken(0) == 0;
    };
    source.observer = [this](HandoffStep step) { steps_.push_back(step); };
    session_ = std::make_unique<SourceSession>(
        place, std::move(source), std::make_unique<FakeConnection>(loop_, wire_), [this] {
          session_.reset();
        });
    session_->Begin();
  }
  void Settle() { loop_.RunPosted(); }

  /// Until the destination has been asked for room.
  void ToReserve() {
    Begin();
    script_->Answer(0, HandoffOutcome::kSubmitted);
    script_->Happens(engine::SourceHeld{Timing()});
    Settle();
  }
  void ToTransfer() {
    ToReserve();
    wire_->Receive(Ack(1, AckKind::kAccepted));
    wire_->Receive(Reserved(16));
    Settle();
  }
  void ToActivation() {
    ToTransfer();
    Pass(milliseconds(181));
  }
  /// Answers to the cleanup; then the request has heard `text`, and so has the destination.
  void ExpectFailed(const std::string& text, bool told = true) {
    Settle();
    ASSERT_FALSE(script_->asked.empty());
    EXPECT_EQ(script_->asked.back()->what, "cancel source");
    EXPECT_EQ(completions_, 0) << "not before the engine has answered";
    if (told) {
      EXPECT_EQ(wire_->Last(), DebugText(BootstrapMessage(BootstrapAbort{text})));
    }
    script_->Answer(script_->asked.size() - 1, HandoffOutcome::kApplied);
    Settle();
    EXPECT_EQ(completions_, 1);
    EXPECT_EQ(completion_, text);
    EXPECT_TRUE(closed_before_completion_);
    EXPECT_EQ(session_, nullptr);
    EXPECT_FALSE(script_->registered);
    EXPECT_EQ(loop_.timers_armed(), 0U);
  }

  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  SessionPermits permits_{1, 1};
  std::unique_ptr<SourceSession> session_;
  int completions_ = 0;
  std::string completion_;
  bool closed_before_completion_ = false;
  std::vector<HandoffStep> steps_;
};

TEST_F(SourceSessionTest, M175_RegisteredIsSaidFirst) {
  Begin();
  EXPECT_EQ(wire_->Texts(), Names{"Registered"});
  EXPECT_EQ(script_->Names(), Names{"submit"});
  EXPECT_EQ(script_->requests, 1);
}

TEST_F(SourceSessionTest, M176_TheFlowOfASourceFirstHandoff) {
  ToReserve();
  const std::string id = std::string("handoff_id: ") + kHandoffName;
  EXPECT_EQ(wire_->Texts(),
            (Names{"Registered",
                   "Fact(SourceHeld { " + id +
                       ", transfer_timing: HandoffTransferTiming { mode: FullPrompt, "
                       "full_prompt_tokens: 40, kv_bytes_per_token: Some(45056), bandwidth_gb_s: "
                       "Some(0.01) } })",
                   "Action(IssuedHandoffAction { id: HandoffActionId(1), action: "
                   "ReserveDestination { " +
                       id + " } })"}));
  wire_->Receive(Ack(1, AckKind::kAccepted));
  wire_->Receive(Reserved(16));
  Pass(milliseconds(180));
  EXPECT_EQ(wire_->sent.size(), 3U) << "the transfer takes 180.224 ms";
  Pass(milliseconds(1));
  EXPECT_EQ(wire_->Last(),
            "Action(IssuedHandoffAction { id: HandoffActionId(3), action: ActivateDestination { " +
                id + " } })");
  wire_->Receive(Ack(3, AckKind::kApplied));
  EXPECT_EQ(script_->Names(), (Names{"submit", "release"}));
  script_->Answer(1, HandoffOutcome::kApplied);
  EXPECT_EQ(wire_->Last(), "Complete");
  Settle();
  EXPECT_EQ(completion_, "ok");
  EXPECT_TRUE(closed_before_completion_);
  EXPECT_EQ(session_, nullptr);
  EXPECT_EQ(steps_,
            (std::vector{HandoffStep::kSourceHeld,
                         HandoffStep::kDestinationAccepted,
                         HandoffStep::kDestinationReserved,
                         HandoffStep::kDestinationActivated,
                         HandoffStep::kSourceReleased,
                         HandoffStep::kCompleted}));
}

TEST_F(SourceSessionTest, M177_TheFlowOfADestinationFirstHandoff) {
  Begin(Order::kDestinationFirst);
  const std::string id = std::string("handoff_id: ") + kHandoffName;
  EXPECT_EQ(wire_->Last(),
            "Action(IssuedHandoffAction { id: HandoffActionId(0), action: ReserveDestination { " +
                id + " } })");
  EXPECT_TRUE(script_->asked.empty());
  wire_->Receive(Ack(0, AckKind::kAccepted));
  wire_->Receive(Reserved(64));
  EXPECT_EQ(script_->Names(), Names{"submit"});
  script_->Answer(0, HandoffOutcome::kSubmitted);
  script_->Happens(engine::SourceHeld{Timing()});
  EXPECT_TRUE(wire_->Last().starts_with("Fact(SourceHeld"));
  Pass(milliseconds(181));
  wire_->Receive(Ack(3, AckKind::kApplied));
  script_->Answer(1, HandoffOutcome::kNoop);
  EXPECT_EQ(wire_->Last(), "Complete");
  Settle();
  EXPECT_EQ(completion_, "ok");
  EXPECT_EQ(steps_,
            (std::vector{HandoffStep::kDestinationAccepted,
                         HandoffStep::kDestinationReserved,
                         HandoffStep::kSourceHeld,
                         HandoffStep::kDestinationActivated,
                         HandoffStep::kSourceReleased,
                         HandoffStep::kCompleted}));
}

TEST_F(SourceSessionTest, M178_AHeldSourceWaitsForTheAnswerToItsSubmission) {
  Begin();
  script_->Happens(engine::SourceHeld{Timing()});
  EXPECT_EQ(wire_->sent.size(), 1U);
  script_->Answer(0, HandoffOutcome::kSubmitted);
  EXPECT_EQ(wire_->sent.size(), 3U);
}

TEST_F(SourceSessionTest, M178_ATimingThatChangesMeanwhileIsAnError) {
  Begin();
  script_->Happens(engine::SourceHeld{Timing()});
  script_->Happens(engine::SourceHeld{Timing()});
  EXPECT_EQ(completions_, 0);
  script_->Happens(engine::SourceHeld{Timing(Mode::kDestinationMissing)});
  ExpectFailed("source changed its modeled transfer timing before submission ACK");
}

TEST_F(SourceSessionTest, ASourceThatIsHeldAlthoughItsSubmissionFailed) {
  Begin();
  script_->Happens(engine::SourceHeld{Timing()});
  script_->Answer(0, Fail(Errc::kInternal, "no"));
  // The coordinator has begun to clean up by itself; that call is dropped for the session's own.
  EXPECT_EQ(script_->Names(), (Names{"submit", "cancel source", "cancel source"}));
  ExpectFailed("source was held after its submission failed");
}

TEST_F(SourceSessionTest, M179_TheDeadlineIsTheTimeoutPlusTheTransfer) {
  ToReserve();
  Pass(milliseconds(1680));
  EXPECT_EQ(script_->asked.size(), 1U);
  Pass(milliseconds(1));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M179_InTheOtherModeTheTransferCountsWhenItIsKnown) {
  Begin();
  script_->Answer(0, HandoffOutcome::kSubmitted);
  script_->Happens(engine::SourceHeld{Timing(Mode::kDestinationMissing)});
  wire_->Receive(Ack(1, AckKind::kAccepted));
  wire_->Receive(Reserved(1000));  // 4505.6 ms
  Pass(milliseconds(4505));
  EXPECT_EQ(wire_->sent.size(), 3U);
  Pass(milliseconds(1));
  EXPECT_TRUE(wire_->Last().find("ActivateDestination") != std::string::npos);
  Pass(milliseconds(1500));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M179_WithoutATransferTheTimeoutCountsAlone) {
  Begin();
  Pass(milliseconds(1499));
  EXPECT_EQ(script_->asked.size(), 1U);
  Pass(milliseconds(1));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M180_AnExpiredSessionCleansItsHeldSource) {
  ToTransfer();
  wire_->sent.clear();
  Pass(milliseconds(181));
  Pass(seconds(2));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M181_ACancelledRequestIsCleanedUp) {
  ToReserve();
  session_->Cancel();
  session_->Cancel();
  ExpectFailed("source request was canceled");
}

TEST_F(SourceSessionTest, M125_AShutdownCleansUp) {
  ToTransfer();
  session_->Shutdown();
  ExpectFailed("mocker is shutting down");
}

TEST_F(SourceSessionTest, M182_TheEndOfTheEnginesEventsIsCleanedUp) {
  ToReserve();
  script_->Happens(std::nullopt);
  ExpectFailed("source lifecycle channel closed");
}

TEST_F(SourceSessionTest, EventsOfTheWrongEndAreErrors) {
  ToReserve();
  script_->Happens(engine::DestinationReserved{16});
  ExpectFailed("source scheduler emitted a destination lifecycle event");
}

TEST_F(SourceSessionTest, M155_AnInvalidTimingFailsTheHandoff) {
  Begin();
  script_->Answer(0, HandoffOutcome::kSubmitted);
  engine::TransferTiming timing = Timing();
  timing.bandwidth_gb_s = 0.0;
  script_->Happens(engine::SourceHeld{timing});
  ExpectFailed("invalid handoff transfer bandwidth 0");
}

TEST_F(SourceSessionTest, M183_ADestinationThatLeavesIsCleanedUpAtEveryStage) {
  for (const int stage : {0, 1, 2, 3}) {
    wire_ = std::make_shared<Wire>();
    script_ = std::make_shared<Script>();
    completions_ = 0;
    if (stage == 0) {
      Begin();
    } else if (stage == 1) {
      ToReserve();
    } else if (stage == 2) {
      ToTransfer();
    } else {
      ToActivation();
    }
    wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
    wire_->End(Status());
    ExpectFailed("destination disconnected", /*told=*/false);
  }
}

TEST_F(SourceSessionTest, ABrokenConnectionIsToldInItsOwnWords) {
  ToReserve();
  wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
  wire_->End(Fail(Errc::kUnavailable, "Connection reset by peer (os error 104)"));
  ExpectFailed("Connection reset by peer (os error 104)", /*told=*/false);
}

TEST_F(SourceSessionTest, M141_M187_APeerThatMakesNoSenseIsTold) {
  ToReserve();
  wire_->End(Fail(Errc::kMalformed, "bootstrap frame changed session identity"));
  ExpectFailed("bootstrap frame changed session identity");
}

TEST_F(SourceSessionTest, APeerThatMakesNoSenseAndLeavesIsNotWaitedFor) {
  ToReserve();
  wire_->stuck = true;
  wire_->End(Fail(Errc::kMalformed, "bootstrap frame contains malformed JSON"));
  script_->Answer(1, HandoffOutcome::kApplied);
  Settle();
  EXPECT_EQ(completions_, 0) << "the peer has not been told yet";
  wire_->End(Fail(Errc::kUnavailable, "Connection reset by peer (os error 104)"));
  Settle();
  EXPECT_EQ(completion_, "bootstrap frame contains malformed JSON");
  EXPECT_EQ(session_, nullptr);
}

TEST_F(SourceSessionTest, M184_ALostReservationAckEndsWithTheDeadline) {
  ToReserve();
  Pass(milliseconds(1680));
  EXPECT_EQ(script_->asked.size(), 1U);
  Pass(milliseconds(1));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M184_ALostActivationAckEndsWithTheDeadline) {
  ToActivation();
  EXPECT_TRUE(wire_->Last().find("ActivateDestination") != std::string::npos);
  Pass(milliseconds(1500));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, M185_TheCleanupMayTakeLongerThanARendezvous) {
  Begin(Order::kSourceFirst, seconds(40));
  session_->Cancel();
  Pass(seconds(39));
  EXPECT_EQ(completions_, 0);
  ExpectFailed("source request was canceled");
}

TEST_F(SourceSessionTest, M187_AProtocolErrorOfThePeerIsPassedOn) {
  ToReserve();
  wire_->Receive(transport::BootstrapProtocolError{"bad"});
  ExpectFailed("bad");
}

TEST_F(SourceSessionTest, M160_M187_ALocalActionCannotBeAnsweredByThePeer) {
  ToReserve();
  wire_->Receive(Ack(0, AckKind::kApplied));
  ExpectFailed("conflicting outcome for handoff action HandoffActionId(0)");
}

TEST_F(SourceSessionTest, M187_RoomOfAnotherHandoffIsRefused) {
  ToReserve();
  transport::BootstrapFact fact;
  fact.kind = transport::BootstrapFact::Kind::kDestinationReserved;
  fact.handoff_id = {9, 9};
  wire_->Receive(fact);
  ExpectFailed(
      "unexpected destination bootstrap message: Fact(DestinationReserved { handoff_id: "
      "HandoffId(00000000-0000-0009-0000-000000000009), transferable_prompt_tokens: 0 })");
}

TEST_F(SourceSessionTest, M188_AFailedReservationIsTakenBackAndItsAckAwaited) {
  ToReserve();
  wire_->Receive(Ack(1, AckKind::kFailed, "destination prompt exceeds the KV pool capacity"));
  EXPECT_EQ(wire_->Last(),
            std::string("Action(IssuedHandoffAction { id: HandoffActionId(3), action: "
                        "CancelDestination { handoff_id: ") +
                kHandoffName + " } })");
  EXPECT_EQ(script_->Names(), (Names{"submit", "cancel source"}));
  script_->Answer(1, HandoffOutcome::kApplied);
  EXPECT_EQ(completions_, 0);
  wire_->Receive(Ack(3, AckKind::kNoop));
  EXPECT_EQ(wire_->Last(), "Abort { message: \"handoff canceled\" }");
  Settle();
  EXPECT_EQ(completion_, "handoff canceled");
  EXPECT_EQ(script_->asked.size(), 2U) << "all was cleaned already";
  EXPECT_EQ(session_, nullptr);
}

TEST_F(SourceSessionTest, M188_AnUnansweredCancellationEndsWithTheDeadline) {
  ToReserve();
  wire_->Receive(Ack(1, AckKind::kFailed, "no"));
  script_->Answer(1, HandoffOutcome::kApplied);
  Pass(milliseconds(1681));
  ExpectFailed("handoff session timed out");
}

TEST_F(SourceSessionTest, AQueueThatIsFullFailsTheHandoff) {
  Begin();
  script_->Answer(0, HandoffOutcome::kSubmitted);
  wire_->refusal = Fail(Errc::kOverloaded, "no available capacity");
  script_->Happens(engine::SourceHeld{Timing()});
  ExpectFailed("source bootstrap outbound queue failed: no available capacity", /*told=*/false);
}

TEST_F(SourceSessionTest, TheLastMessageMustBeWrittenInTime) {
  ToActivation();
  wire_->stuck = true;
  wire_->Receive(Ack(3, AckKind::kApplied));
  script_->Answer(1, HandoffOutcome::kApplied);
  EXPECT_EQ(wire_->Last(), "Complete");
  Settle();
  EXPECT_EQ(completions_, 0);
  session_->Cancel();  // too late: all is done
  Pass(milliseconds(1500));
  EXPECT_EQ(script_->asked.back()->what, "cancel source");
  script_->Answer(2, HandoffOutcome::kNoop);
  Settle();
  EXPECT_EQ(completions_, 0) << "the abort is stuck as well";
  Pass(seconds(30));
  EXPECT_EQ(completion_, "source bootstrap send timed out");
}

TEST_F(SourceSessionTest, AConnectionThatDiesUnderTheLastMessage) {
  ToActivation();
  wire_->stuck = true;
  wire_->Receive(Ack(3, AckKind::kApplied));
  script_->Answer(1, HandoffOutcome::kApplied);
  wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
  wire_->End(Status());
  ExpectFailed("source bootstrap send acknowledgement dropped", /*told=*/false);
}

TEST_F(SourceSessionTest, AnEngineThatDoesNotAnswerTheCleanupIsNotWaitedForForEver) {
  ToReserve();
  session_->Cancel();
  Pass(seconds(29));
  EXPECT_EQ(completions_, 0);
  Pass(seconds(2));
  EXPECT_EQ(completion_, "source request was canceled");
  EXPECT_EQ(session_, nullptr);
}

TEST_F(SourceSessionTest, ASubmissionUnderWayIsLeftToItsEndBeforeTheCancellation) {
  Begin();
  session_->Cancel();
  EXPECT_EQ(script_->Names(), (Names{"submit", "cancel source"}));
  EXPECT_FALSE(script_->asked[0]->heard);
  ExpectFailed("source request was canceled");
}

TEST_F(SourceSessionTest, ADelayBeyondAllMeasureIsBounded) {
  Begin();
  script_->Answer(0, HandoffOutcome::kSubmitted);
  engine::TransferTiming timing = Timing();
  timing.bandwidth_gb_s = 1e-200;
  script_->Happens(engine::SourceHeld{timing});
  wire_->Receive(Ack(1, AckKind::kAccepted));
  wire_->Receive(Reserved(16));
  Pass(milliseconds(10));
  EXPECT_EQ(wire_->sent.size(), 3U);
  session_->Cancel();
  ExpectFailed("source request was canceled");
}

}  // namespace
}  // namespace understudy::worker
