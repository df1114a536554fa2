// Who is registered, and who was: rows M-215 to M-223, M-245, M-248, M-249.
#include "tests/unit/plugin/handoff/boundary_fixture.h"

namespace understudy::mocker::handoff {
namespace {

using BoundaryRegistry = BoundaryTest;

TEST_F(BoundaryRegistry, M215_RegistrationOnAStoppedEngineIsRefused) {
  port_.running = false;
  EXPECT_EQ(RefusalOf(), "live Mocker engine is not running");
  port_.running = true;
  boundary_->Shutdown([](const Status&) {});
  EXPECT_EQ(RefusalOf(), "live Mocker engine is not running");
}

TEST_F(BoundaryRegistry, M216_RegistrationGivesControlAndEventsOfTheId) {
  const auto registration = Register();
  EXPECT_EQ(registration.control->handoff_id(), kId);
  EXPECT_NE(registration.events, nullptr);
  EXPECT_EQ(boundary_->sizes().registered, 1U);
}

TEST_F(BoundaryRegistry, M186_M217_ASecondRegistrationIsRefusedAndTheFirstIsIntact) {
  const auto first = Register();
  EXPECT_EQ(RefusalOf(), std::string("handoff ") + kName + " already has a lifecycle route");
  Listener listener;
  Listen(*first.events, listener);
  Reserved(5);
  EXPECT_EQ(listener.tokens, std::vector<std::uint64_t>{5});
}

TEST_F(BoundaryRegistry, M218_AnEarlierRegistrationWithACommandUnderWayBlocksTheId) {
  auto first = Register();
  CallAnswer answer;
  const auto call = first.control->CancelDestination(answer.Taker());
  first.events.reset();
  EXPECT_EQ(RefusalOf(),
            std::string("handoff ") + kName + " still has a scheduler command in progress");
  Reply(0, HandoffOutcome::kNoop);
  EXPECT_TRUE(answer.came());
  EXPECT_EQ(RefusalOf(), "");
}

TEST_F(BoundaryRegistry, M219_InProgressIsSaidBeforeAlreadyRegistered) {
  const auto first = Register();
  const auto call = first.control->CancelDestination([](const auto&) {});
  EXPECT_EQ(RefusalOf(),
            std::string("handoff ") + kName + " still has a scheduler command in progress");
}

TEST_F(BoundaryRegistry, M220_AStopDuringRegistrationRollsItBack) {
  port_.asked = 0;
  port_.stops_at = 2;  // between the first look and the second
  EXPECT_EQ(RefusalOf(), "live Mocker engine is not running");
  EXPECT_EQ(boundary_->sizes().registered, 0U);
  EXPECT_EQ(boundary_->sizes().remembered, 0U);
}

TEST_F(BoundaryRegistry, M221_EveryRegistrationIsANewGeneration) {
  auto first = Register();
  first.events.reset();
  const auto second = Register();
  EXPECT_EQ(boundary_->sizes().remembered, 1U) << "only the latest";
  CallAnswer old;
  const auto call = first.control->CancelSource(old.Taker());
  loop_.RunPosted();
  EXPECT_EQ(old.error(),
            std::string("handoff ") + kName + " control belongs to an earlier registration");
  first.control.reset();
  EXPECT_EQ(boundary_->sizes().remembered, 1U) << "the death of the old one removes nothing";
}

TEST_F(BoundaryRegistry, M222_AnIdIsFreeWhenItsEventsAreDropped) {
  auto first = Register();
  first.events.reset();
  EXPECT_EQ(RefusalOf(), "");
}

TEST_F(BoundaryRegistry, M223_AControlDoesNotKeepTheEngine) {
  auto registration = Register();
  Listener listener;
  Listen(*registration.events, listener);
  boundary_.reset();
  loop_.RunPosted();
  EXPECT_TRUE(listener.ended);
  CallAnswer answer;
  const auto call = registration.control->ReleaseSource(answer.Taker());
  EXPECT_FALSE(answer.came()) << "never from inside the call";
  loop_.RunPosted();
  EXPECT_EQ(answer.error(), "live Mocker engine no longer exists");
}

TEST_F(BoundaryRegistry, M245_TheEndClosesRequestsAndRegistrationsInEveryCase) {
  for (const bool expected : {true, false}) {
    Make();
    auto registration = Register();
    auto prepared = Prepare(1);
    bool closed = false;
    prepared.life->OnClosed([&] { closed = true; });
    Listener listener;
    Listen(*registration.events, listener);
    boundary_->LaneClosed(expected);
    loop_.RunPosted();
    EXPECT_TRUE(listener.ended);
    EXPECT_TRUE(closed);
    EXPECT_EQ(boundary_->sizes().registered, 0U);
    EXPECT_EQ(boundary_->sizes().requests, 0U);
    EXPECT_EQ(RefusalOf(), "live Mocker engine is not running");
  }
}

TEST_F(BoundaryRegistry, M248_NothingIsRememberedWhenTheLastHandleIsGone) {
  auto registration = Register();
  registration.events.reset();
  EXPECT_EQ(boundary_->sizes().remembered, 1U) << "the control may still clean up";
  registration.control.reset();
  EXPECT_EQ(boundary_->sizes().remembered, 0U);
  auto other = Register(kOther);
  other.control.reset();
  other.events.reset();
  EXPECT_EQ(boundary_->sizes().remembered, 0U);
}

TEST_F(BoundaryRegistry, M249_ShutdownEndsEventsAndTellsEveryCallerTheSame) {
  auto registration = Register();
  Listener listener;
  Listen(*registration.events, listener);
  int done = 0;
  const auto tell = [&done](const Status& result) {
    EXPECT_TRUE(result) << result.error().message;
    ++done;
  };
  boundary_->Shutdown(tell);
  boundary_->Shutdown(tell);
  EXPECT_EQ(done, 0) << "never from inside the call";
  loop_.RunPosted();
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(listener.ended);
  boundary_->Shutdown(tell);
  loop_.RunPosted();
  EXPECT_EQ(done, 3);
  EXPECT_EQ(boundary_->sizes().registered, 0U);
}

TEST_F(BoundaryRegistry, M249_ShutdownWaitsForTheCommandsUnderWay) {
  const auto registration = Register();
  CallAnswer answer;
  const auto call = registration.control->CancelSource(answer.Taker());
  bool done = false;
  boundary_->Shutdown([&done](const Status&) { done = true; });
  loop_.RunPosted();
  EXPECT_FALSE(done);
  Reply(0, HandoffOutcome::kApplied);
  EXPECT_TRUE(done);
  EXPECT_TRUE(answer.result->has_value());
}

TEST_F(BoundaryRegistry, M249_CommandsThatNobodyAnswersEndWithTheRank) {
  const auto registration = Register();
  CallAnswer answer;
  const auto call = registration.control->CancelSource(answer.Taker());
  bool done = false;
  boundary_->Shutdown([&done](const Status& result) { done = result.has_value(); });
  boundary_->LaneClosed(true);
  loop_.RunPosted();
  EXPECT_TRUE(done);
  EXPECT_EQ(answer.error(), "Mocker scheduler dropped a command acknowledgement");
}

TEST_F(BoundaryRegistry, M243_ALaneThatClosesUnexpectedlyIsAnErrorAndCancelsEverything) {
  auto registration = Register();
  Listener listener;
  Listen(*registration.events, listener);
  boundary_->LaneClosed(false);
  std::string error;
  boundary_->Shutdown([&error](const Status& result) { error = result.error().message; });
  loop_.RunPosted();
  EXPECT_EQ(error,
            "live Mocker lifecycle dispatcher failed: live Mocker lifecycle lane closed "
            "unexpectedly");
  EXPECT_TRUE(listener.ended);
  EXPECT_EQ(RefusalOf(), "live Mocker engine is not running");
}

TEST_F(BoundaryRegistry, M244_AnAnswerThatNobodyAskedForEndsTheDispatcher) {
  auto registration = Register();
  Listener listener;
  Listen(*registration.events, listener);
  Signal signal;
  signal.command = 41;
  boundary_->OnSignal(signal);
  std::string error;
  boundary_->Shutdown([&error](const Status& result) { error = result.error().message; });
  loop_.RunPosted();
  EXPECT_EQ(error,
            "live Mocker lifecycle dispatcher failed: live Mocker lifecycle dispatcher task "
            "failed: answer to command 41, which is not under way");
  EXPECT_TRUE(listener.ended);
}

}  // namespace
}  // namespace understudy::mocker::handoff
