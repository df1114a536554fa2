// The decode side of a hand-off: rows M-189 to M-196, M-267.
#include "worker/handoff/destination_session.h"

#include "tests/unit/worker/handoff/handoff_fakes.h"

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ActionKind = transport::BootstrapAction::Kind;
using AckKind = transport::BootstrapActionAck::Outcome;
using transport::BootstrapMessage;
using transport::BootstrapTiming;

constexpr const char* kEnded = "destination handoff ended before completion";

class DestinationSessionTest : public SessionTest {
 protected:
  void Begin() {
    HandoffRequest handoff = MakeHandoff(script_);
    handoff.permit = *permits_.Take(0);
    session_ = std::make_unique<DestinationSession>(
        place_,
        std::move(handoff),
        std::make_unique<FakeConnection>(loop_, wire_),
        [this](const Status& status) {
          result_ = status ? "ok" : status.error().message;
          freed_ = wire_->closed && permits_.taken(0) == 0 && !script_->registered;
          session_.reset();
        });
    session_->Begin();
  }
  void BeginRegistered() {
    Begin();
    wire_->Receive(transport::BootstrapRegistered());
  }
  void ToReserved() {
    BeginRegistered();
    wire_->Receive(Action(1, ActionKind::kReserveDestination));
    script_->Answer(0, HandoffOutcome::kAccepted);
    script_->Happens(engine::DestinationReserved{48});
  }
  void ToActivated() {
    ToReserved();
    wire_->Receive(Action(3, ActionKind::kActivateDestination));
    script_->Answer(1, HandoffOutcome::kApplied);
  }
  /// The connection is closed at once, and the engine asked to take back what it holds.
  void ExpectFailed(const std::string& text) {
    EXPECT_TRUE(wire_->closed);
    ASSERT_FALSE(script_->asked.empty());
    EXPECT_EQ(script_->asked.back()->what, "cancel destination");
    EXPECT_EQ(result_, "") << "not before the engine has answered";
    script_->Answer(script_->asked.size() - 1, HandoffOutcome::kNoop);
    loop_.RunPosted();
    EXPECT_EQ(result_, text);
    EXPECT_TRUE(freed_);
    EXPECT_EQ(session_, nullptr);
    EXPECT_EQ(loop_.timers_armed(), 0U);
    for (const auto& message : wire_->sent) {
      EXPECT_FALSE(std::holds_alternative<transport::BootstrapAbort>(message))
          << "a destination just closes";
    }
  }
  [[nodiscard]] std::string AckText(std::uint64_t id, AckKind kind, const std::string& error = "") {
    return DebugText(Ack(id, kind, error));
  }
  [[nodiscard]] static BootstrapMessage HeldFor(BootstrapTiming::Mode mode, double bandwidth) {
    return Held({mode, 40, 45056, bandwidth});
  }

  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  SessionPermits permits_{1, 1};
  std::unique_ptr<DestinationSession> session_;
  std::string result_;
  bool freed_ = false;
};

TEST_F(DestinationSessionTest, TheFlowOfAHandoff) {
  ToActivated();
  EXPECT_EQ(wire_->Texts(),
            (Names{AckText(1, AckKind::kAccepted),
                   std::string("Fact(DestinationReserved { handoff_id: ") + kHandoffName +
                       ", transferable_prompt_tokens: 48 })",
                   AckText(3, AckKind::kApplied)}));
  EXPECT_EQ(script_->Names(), (Names{"reserve", "activate"}));
  EXPECT_EQ(script_->requests, 1);
  wire_->Receive(transport::BootstrapComplete());
  loop_.RunPosted();
  EXPECT_EQ(result_, "ok");
  EXPECT_TRUE(freed_);
  EXPECT_EQ(script_->asked.size(), 2U) << "nothing to clean";
  EXPECT_EQ(loop_.timers_armed(), 0U);
}

TEST_F(DestinationSessionTest, M189_TheAcceptedAckComesBeforeTheReservedFact) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  script_->Happens(engine::DestinationReserved{48});
  script_->Happens(engine::DestinationReserved{48});
  EXPECT_TRUE(wire_->sent.empty());
  script_->Answer(0, HandoffOutcome::kAccepted);
  ASSERT_EQ(wire_->sent.size(), 2U);
  EXPECT_EQ(wire_->Texts()[0], AckText(1, AckKind::kAccepted));
  script_->Happens(engine::DestinationReserved{48});
  EXPECT_EQ(wire_->sent.size(), 2U) << "once";
}

TEST_F(DestinationSessionTest, M189_AReservationThatFailedMustNotBeFollowedByRoom) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  script_->Happens(engine::DestinationReserved{48});
  script_->Answer(0, Fail(Errc::kInternal, "no"));
  ExpectFailed("destination reservation lifecycle accompanied a failed reservation");
}

TEST_F(DestinationSessionTest, ActionsAreServedBeforeRegistered) {
  Begin();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  script_->Answer(0, HandoffOutcome::kAccepted);
  EXPECT_EQ(wire_->Texts(), Names{AckText(1, AckKind::kAccepted)});
}

TEST_F(DestinationSessionTest, M190_APrematureCompleteIsRefusedAndCleanedUp) {
  ToReserved();
  wire_->Receive(transport::BootstrapComplete());
  ExpectFailed("source completed before destination activation finished");
}

TEST_F(DestinationSessionTest, M190_ACompleteWithAnActionPendingIsPremature) {
  ToActivated();
  wire_->Receive(Action(4, ActionKind::kCancelDestination));
  wire_->Receive(transport::BootstrapComplete());
  ExpectFailed("source completed before destination activation finished");
}

TEST_F(DestinationSessionTest, M191_ARepeatedActionGetsTheStoredAck) {
  ToReserved();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  EXPECT_EQ(wire_->Last(), AckText(1, AckKind::kAccepted));
  EXPECT_EQ(script_->asked.size(), 1U);
}

TEST_F(DestinationSessionTest, M191_AnIdWithOtherContentIsAnError) {
  ToReserved();
  wire_->Receive(Action(1, ActionKind::kActivateDestination));
  ExpectFailed("bootstrap action ID was reused with different content");
}

TEST_F(DestinationSessionTest, M191_WhileOneIsPendingTheSameIsIgnoredAndAnotherIsAnError) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  EXPECT_EQ(script_->asked.size(), 1U);
  wire_->Receive(Action(2, ActionKind::kActivateDestination));
  ExpectFailed("destination received a new action while another was pending");
}

TEST_F(DestinationSessionTest, M192_TooManyOutcomesAreRefused) {
  BeginRegistered();
  for (std::uint64_t id = 0; id < DestinationSession::kOutcomesMax; ++id) {
    wire_->Receive(Action(id, ActionKind::kReleaseSource));
  }
  EXPECT_EQ(wire_->sent.size(), DestinationSession::kOutcomesMax);
  wire_->Receive(Action(16, ActionKind::kReleaseSource));
  ExpectFailed("bootstrap action outcome cache exceeded its bound");
}

TEST_F(DestinationSessionTest, M193_ThirtySecondsForTheFirstWord) {
  Begin();
  Pass(seconds(30) - milliseconds(1));
  EXPECT_FALSE(wire_->closed);
  Pass(milliseconds(1));
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M193_TheSessionTimeoutFromThereOn) {
  Begin();
  Pass(seconds(20));
  wire_->Receive(transport::BootstrapRegistered());
  Pass(milliseconds(1499));
  EXPECT_FALSE(wire_->closed);
  Pass(milliseconds(1));
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M193_AndTheTransferOnTop) {
  BeginRegistered();
  wire_->Receive(HeldFor(BootstrapTiming::Mode::kFullPrompt, 0.01));  // 180.224 ms
  wire_->Receive(HeldFor(BootstrapTiming::Mode::kFullPrompt, 0.01));
  Pass(milliseconds(1680));
  EXPECT_FALSE(wire_->closed);
  Pass(milliseconds(1));
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M193_InTheOtherModeWhenTheRoomIsKnown) {
  BeginRegistered();
  wire_->Receive(HeldFor(BootstrapTiming::Mode::kDestinationMissing, 0.01));
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  script_->Answer(0, HandoffOutcome::kAccepted);
  script_->Happens(engine::DestinationReserved{1000});  // 4505.6 ms
  Pass(milliseconds(6005));
  EXPECT_FALSE(wire_->closed);
  Pass(milliseconds(1));
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M194_AnExpiredReservationIsTakenBack) {
  ToReserved();
  Pass(milliseconds(1500));
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M196_AFailedReservationIsAckedWithItsText) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  script_->Answer(0, Fail(Errc::kInternal, "destination prompt exceeds the KV pool capacity"));
  EXPECT_EQ(wire_->Last(),
            AckText(1, AckKind::kFailed, "destination prompt exceeds the KV pool capacity"));
  wire_->Receive(transport::BootstrapAbort{"handoff canceled"});
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M195_ActionsThatAreNotForItAreAckedAsFailed) {
  ToReserved();
  wire_->Receive(Action(2, ActionKind::kReserveDestination));
  EXPECT_EQ(wire_->Last(),
            AckText(2, AckKind::kFailed, "destination request was reserved more than once"));
  wire_->Receive(Action(3, ActionKind::kReleaseSource));
  EXPECT_EQ(wire_->Last(),
            AckText(3, AckKind::kFailed, "source sent a non-destination scheduler action"));
  wire_->Receive(Action(5, ActionKind::kCancelDestination));
  script_->Answer(1, HandoffOutcome::kApplied);
  EXPECT_EQ(wire_->Last(), AckText(5, AckKind::kApplied));
  wire_->Receive(Action(6, ActionKind::kCancelDestination));
  script_->Answer(2, HandoffOutcome::kNoop);
  EXPECT_EQ(wire_->Last(), AckText(6, AckKind::kNoop));
  wire_->Receive(Action(7, ActionKind::kActivateDestination));
  script_->Answer(3, Fail(Errc::kInternal, "unexpected scheduler handoff result for X: Noop"));
  EXPECT_EQ(wire_->Last(),
            AckText(7, AckKind::kFailed, "unexpected scheduler handoff result for X: Noop"));
}

TEST_F(DestinationSessionTest, M267_AnActionForAnotherHandoffIsAckedAsFailed) {
  BeginRegistered();
  wire_->Receive(transport::BootstrapAction{1, ActionKind::kReserveDestination, {0, 0x12}, 0.0});
  EXPECT_EQ(wire_->Last(),
            AckText(1,
                    AckKind::kFailed,
                    "destination action handoff HandoffId(00000000-0000-0000-0000-000000000012) "
                    "does not match bootstrap handoff " +
                        std::string(kHandoffName)));
  wire_->Receive(Action(2, ActionKind::kReserveDestination));
  EXPECT_EQ(script_->requests, 1) << "the request was not used up";
}

TEST_F(DestinationSessionTest, M195_ASourceThatDisconnectsEndsTheSession) {
  ToReserved();
  wire_->End(Status());
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, ABrokenConnectionIsToldInItsOwnWords) {
  BeginRegistered();
  wire_->End(Fail(Errc::kTimeout, "bootstrap send timed out"));
  ExpectFailed("bootstrap send timed out");
}

TEST_F(DestinationSessionTest, AnAckThatCannotBeSentEndsTheSession) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  wire_->refusal = Fail(Errc::kOverloaded, "no available capacity");
  script_->Answer(0, HandoffOutcome::kAccepted);
  ExpectFailed("no available capacity");
}

TEST_F(DestinationSessionTest, M212_ACancelledRequestClosesTheConnectionWithoutAFrame) {
  ToReserved();
  wire_->sent.clear();
  session_->Cancel();
  EXPECT_TRUE(wire_->sent.empty());
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, M126_AShutdownCleansUp) {
  ToActivated();
  session_->Shutdown();
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, TheEndOfTheEnginesEventsEndsTheSession) {
  ToReserved();
  script_->Happens(std::nullopt);
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, EventsThatDoNotBelongHereAreErrors) {
  BeginRegistered();
  script_->Happens(engine::SourceHeld{Timing()});
  ExpectFailed("destination scheduler emitted a source lifecycle event");
}

TEST_F(DestinationSessionTest, RoomWithoutAReservationIsAnError) {
  BeginRegistered();
  script_->Happens(engine::DestinationReserved{1});
  ExpectFailed("destination reserved before its action was pending");
}

TEST_F(DestinationSessionTest, AReservationUnderWayIsLeftToItsEndBeforeItIsTakenBack) {
  BeginRegistered();
  wire_->Receive(Action(1, ActionKind::kReserveDestination));
  session_->Cancel();
  EXPECT_EQ(script_->Names(), (Names{"reserve", "cancel destination"}));
  EXPECT_FALSE(script_->asked[0]->heard);
  ExpectFailed(kEnded);
}

TEST_F(DestinationSessionTest, AnEngineThatDoesNotAnswerTheCleanupIsNotWaitedForForEver) {
  ToReserved();
  session_->Cancel();
  Pass(seconds(29));
  EXPECT_EQ(result_, "");
  Pass(seconds(2));
  EXPECT_EQ(result_, kEnded);
  EXPECT_TRUE(freed_);
}

}  // namespace
}  // namespace understudy::worker
