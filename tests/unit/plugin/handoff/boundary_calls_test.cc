// Commands, one at a time: rows M-224 to M-237.
#include "tests/unit/plugin/handoff/boundary_fixture.h"

namespace understudy::mocker::handoff {
namespace {

using BoundaryCalls = BoundaryTest;

TEST_F(BoundaryCalls, M224_SubmitPrefillIsAnsweredAndTheHeldSourceIsHeardOf) {
  auto registration = Register();
  auto prepared = Prepare(1);
  CallAnswer answer;
  const auto call = registration.control->SubmitPrefill(prepared.request, answer.Taker());
  ASSERT_EQ(SentKinds(), std::vector<Kind>{Kind::kSubmitPrefill});
  EXPECT_EQ(port_.sent[0].request.id, RequestId{1});
  EXPECT_EQ(port_.sent[0].rank, RankIndex{3});
  Reply(0, HandoffOutcome::kSubmitted);
  EXPECT_EQ(answer.result, HandoffOutcome::kSubmitted);
  std::optional<engine::HandoffEvent> got;
  registration.events->Receive([&got](auto event) { got = event; });
  Happens(Signal::Kind::kSourceHeld, 60);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<engine::SourceHeld>(*got).timing,
            (engine::TransferTiming{
                engine::TransferTiming::Mode::kFullPrompt, 60, std::uint64_t{45056}, 64.0}));
}

TEST_F(BoundaryCalls, M225_ReserveDestinationIsAnsweredAndTheRoomIsHeardOf) {
  auto registration = Register();
  auto prepared = Prepare(1);
  CallAnswer answer;
  const auto call = registration.control->ReserveDestination(prepared.request, answer.Taker());
  Reply(0, HandoffOutcome::kAccepted);
  EXPECT_EQ(answer.result, HandoffOutcome::kAccepted);
  std::optional<engine::HandoffEvent> got;
  registration.events->Receive([&got](auto event) { got = event; });
  Reserved(16);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::get<engine::DestinationReserved>(*got).transferable_prompt_tokens, 16U);
}

TEST_F(BoundaryCalls, M227_ActivatingWhatIsNotReservedIsAnError) {
  const auto registration = Register();
  CallAnswer once;
  const auto first = registration.control->ActivateDestination(once.Taker());
  Reply(0, HandoffOutcome::kApplied);
  EXPECT_EQ(once.result, HandoffOutcome::kApplied);
  CallAnswer twice;
  const auto second = registration.control->ActivateDestination(twice.Taker());
  Reply(1, HandoffOutcome::kNoop);
  EXPECT_EQ(twice.error(),
            std::string("unexpected scheduler handoff result for ") + kName + ": Noop");
}

TEST_F(BoundaryCalls, M228_ReleaseAndCancelTakeNoopForAnAnswer) {
  const auto registration = Register();
  CallAnswer answers[3];
  const auto a = registration.control->ReleaseSource(answers[0].Taker());
  Reply(0, HandoffOutcome::kNoop);
  const auto b = registration.control->CancelSource(answers[1].Taker());
  Reply(1, HandoffOutcome::kNoop);
  const auto c = registration.control->CancelDestination(answers[2].Taker());
  Reply(2, HandoffOutcome::kApplied);
  EXPECT_EQ(answers[0].result, HandoffOutcome::kNoop);
  EXPECT_EQ(answers[1].result, HandoffOutcome::kNoop);
  EXPECT_EQ(answers[2].result, HandoffOutcome::kApplied);
  CallAnswer odd;
  const auto d = registration.control->ReleaseSource(odd.Taker());
  Reply(3, HandoffOutcome::kSubmitted);
  EXPECT_EQ(odd.error(),
            std::string("unexpected scheduler handoff result for ") + kName + ": Submitted");
}

TEST_F(BoundaryCalls, M229_SubmissionsNeedTheRegistration) {
  auto registration = Register();
  auto prepared = Prepare(1);
  auto another = Prepare(2);
  registration.events.reset();
  CallAnswer submit;
  CallAnswer reserve;
  const auto a = registration.control->SubmitPrefill(prepared.request, submit.Taker());
  const auto b = registration.control->ReserveDestination(another.request, reserve.Taker());
  loop_.RunPosted();
  const std::string text =
      std::string("handoff ") + kName + " lifecycle route is no longer registered";
  EXPECT_EQ(submit.error(), text);
  EXPECT_EQ(reserve.error(), text);
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(BoundaryCalls, M230_TheOthersWorkWithoutItForTheLatestGeneration) {
  auto registration = Register();
  registration.events.reset();
  CallAnswer answers[4];
  const auto a = registration.control->ActivateDestination(answers[0].Taker());
  Reply(0, HandoffOutcome::kApplied);
  const auto b = registration.control->ReleaseSource(answers[1].Taker());
  Reply(1, HandoffOutcome::kApplied);
  const auto c = registration.control->CancelSource(answers[2].Taker());
  Reply(2, HandoffOutcome::kNoop);
  const auto d = registration.control->CancelDestination(answers[3].Taker());
  Reply(3, HandoffOutcome::kApplied);
  for (const CallAnswer& answer : answers) {
    EXPECT_TRUE(answer.came() && answer.result->has_value());
  }
}

TEST_F(BoundaryCalls, M231_AStaleControlCannotTouchItsSuccessor) {
  auto first = Register();
  first.events.reset();
  auto second = Register();
  auto prepared = Prepare(1);
  CallAnswer answers[2];
  const auto a = first.control->CancelDestination(answers[0].Taker());
  const auto b = first.control->ReserveDestination(prepared.request, answers[1].Taker());
  loop_.RunPosted();
  for (const CallAnswer& answer : answers) {
    EXPECT_EQ(answer.error(),
              std::string("handoff ") + kName + " control belongs to an earlier registration");
  }
  EXPECT_TRUE(port_.sent.empty());
  CallAnswer fresh;
  const auto c = second.control->ReserveDestination(Prepare(2).request, fresh.Taker());
  EXPECT_EQ(port_.sent.size(), 1U);
}

TEST_F(BoundaryCalls, M232_AStaleControlIsRefusedEvenWhenNobodyIsRegistered) {
  auto first = Register();
  first.events.reset();
  auto second = Register();
  second.events.reset();
  CallAnswer answer;
  const auto call = first.control->ReleaseSource(answer.Taker());
  loop_.RunPosted();
  EXPECT_EQ(answer.error(),
            std::string("handoff ") + kName + " control belongs to an earlier registration");
  // Also when the newer generation is dead altogether: nobody is the latest then.
  second.control.reset();
  CallAnswer later;
  const auto again = first.control->ReleaseSource(later.Taker());
  loop_.RunPosted();
  EXPECT_EQ(later.error(),
            std::string("handoff ") + kName + " control belongs to an earlier registration");
}

TEST_F(BoundaryCalls, M233_CommandsOfARegistrationDoNotOverlapThoseOfOthersMay) {
  const auto one = Register();
  const auto other = Register(kOther);
  CallAnswer answers[3];
  const auto a = one.control->CancelSource(answers[0].Taker());
  const auto b = one.control->CancelDestination(answers[1].Taker());
  const auto c = other.control->CancelSource(answers[2].Taker());
  EXPECT_EQ(SentKinds(), (std::vector<Kind>{Kind::kCancelSource, Kind::kCancelSource}));
  Reply(0, HandoffOutcome::kApplied);
  EXPECT_EQ(SentKinds().back(), Kind::kCancelDestination);
  EXPECT_FALSE(answers[1].came());
  Reply(2, HandoffOutcome::kApplied);
  Reply(1, HandoffOutcome::kApplied);
  for (const CallAnswer& answer : answers) {
    EXPECT_EQ(answer.calls, 1);
  }
}

TEST_F(BoundaryCalls, M234_ASubmissionWhoseCallerIsGoneKeepsTheTurnUntilItsAnswer) {
  auto registration = Register();
  CallAnswer answer;
  auto call = registration.control->ReserveDestination(Prepare(1).request, answer.Taker());
  call.reset();
  registration.events.reset();
  EXPECT_EQ(RefusalOf(),
            std::string("handoff ") + kName + " still has a scheduler command in progress");
  CallAnswer cleanup;
  const auto cancel = registration.control->CancelDestination(cleanup.Taker());
  EXPECT_EQ(port_.sent.size(), 1U);
  Reply(0, HandoffOutcome::kAccepted);
  EXPECT_FALSE(answer.came());
  ASSERT_EQ(port_.sent.size(), 2U) << "the reservation is known, now it can be taken back";
  Reply(1, HandoffOutcome::kApplied);
  EXPECT_EQ(cleanup.result, HandoffOutcome::kApplied);
}

TEST_F(BoundaryCalls, M235_AReleaseWhoseCallerIsGoneFreesTheTurn) {
  const auto registration = Register();
  CallAnswer answer;
  auto call = registration.control->ReleaseSource(answer.Taker());
  CallAnswer next;
  const auto cancel = registration.control->CancelSource(next.Taker());
  EXPECT_EQ(port_.sent.size(), 1U);
  call.reset();
  EXPECT_EQ(port_.sent.size(), 2U);
  Reply(0, HandoffOutcome::kApplied);
  EXPECT_FALSE(answer.came());
  EXPECT_FALSE(next.came()) << "that was the answer to the other one";
  Reply(1, HandoffOutcome::kNoop);
  EXPECT_EQ(next.result, HandoffOutcome::kNoop);
}

TEST_F(BoundaryCalls, ACallThatHasNotBegunNeverDoesWhenItsCallerIsGone) {
  const auto registration = Register();
  const auto first = registration.control->CancelSource([](const auto&) {});
  auto prepared = Prepare(1);
  auto waiting =
      registration.control->SubmitPrefill(std::move(prepared.request), [](const auto&) { FAIL(); });
  waiting.reset();
  Reply(0, HandoffOutcome::kNoop);
  EXPECT_EQ(port_.sent.size(), 1U);
  EXPECT_EQ(boundary_->sizes().requests, 0U) << "the request was dropped with the call";
}

TEST_F(BoundaryCalls, TooManyWaitingCallsAreRefused) {
  const auto registration = Register();
  std::vector<std::unique_ptr<engine::HandoffCall>> calls;
  int refused = 0;
  std::string text;
  for (std::size_t i = 0; i < engine::HandoffControl::kCallsWaitingMax + 3; ++i) {
    calls.push_back(registration.control->CancelSource([&](const Result<HandoffOutcome>& result) {
      refused += result ? 0 : 1;
      text = result ? text : result.error().message;
    }));
  }
  loop_.RunPosted();
  EXPECT_EQ(refused, 2) << "one is under way, sixteen wait";
  EXPECT_EQ(text, std::string("handoff ") + kName + " has too many commands waiting");
  EXPECT_EQ(boundary_->counts().calls_refused_total, 2U);
}

TEST_F(BoundaryCalls, M236_AWrongAnswerToASubmissionRemovesItsRequest) {
  const auto registration = Register();
  auto prepared = Prepare(7);
  bool closed = false;
  prepared.life->OnClosed([&closed] { closed = true; });
  CallAnswer answer;
  const auto call = registration.control->SubmitPrefill(prepared.request, answer.Taker());
  Reply(0, HandoffOutcome::kApplied);
  EXPECT_EQ(answer.error(), "unexpected scheduler submit result for client-7: Applied");
  EXPECT_TRUE(closed);
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

TEST_F(BoundaryCalls, M237_ARankThatTakesNothingOrEndsWithoutAnswer) {
  const auto registration = Register();
  port_.refusal = Fail(Errc::kUnavailable, "gone");
  CallAnswer refused;
  const auto a = registration.control->CancelSource(refused.Taker());
  loop_.RunPosted();
  EXPECT_EQ(refused.error(), "Mocker scheduler is not accepting commands");
  port_.refusal = Fail(Errc::kOverloaded, "rank 3 has 65536 waiting requests");
  CallAnswer overloaded;
  const auto b = registration.control->SubmitPrefill(Prepare(1).request, overloaded.Taker());
  loop_.RunPosted();
  EXPECT_EQ(overloaded.error(), "rank 3 has 65536 waiting requests");
  EXPECT_EQ(boundary_->sizes().requests, 0U);
  port_.refusal = {};
  CallAnswer dropped;
  const auto c = registration.control->CancelSource(dropped.Taker());
  boundary_->LaneClosed(true);
  loop_.RunPosted();
  EXPECT_EQ(dropped.error(), "Mocker scheduler dropped a command acknowledgement");
}

TEST_F(BoundaryCalls, TheRanksOwnErrorIsPassedThrough) {
  const auto registration = Register();
  CallAnswer answer;
  const auto call = registration.control->ReserveDestination(Prepare(1).request, answer.Taker());
  ReplyError(0, "destination prompt exceeds the KV pool capacity");
  EXPECT_EQ(answer.error(), "destination prompt exceeds the KV pool capacity");
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

TEST_F(BoundaryCalls, CommandsAfterTheEndAreRefused) {
  const auto registration = Register();
  auto prepared = Prepare(1);
  port_.running = false;
  CallAnswer answers[2];
  const auto a = registration.control->ReleaseSource(answers[0].Taker());
  const auto b = registration.control->SubmitPrefill(prepared.request, answers[1].Taker());
  loop_.RunPosted();
  EXPECT_EQ(answers[0].error(), "live Mocker engine is not running");
  EXPECT_EQ(answers[1].error(), "live Mocker engine is not running");
}

TEST_F(BoundaryCalls, ASubmissionAcceptedAfterTheEndIsTakenBack) {
  const auto registration = Register();
  CallAnswer answer;
  const auto call = registration.control->ReserveDestination(Prepare(9).request, answer.Taker());
  boundary_->Shutdown([](const Status&) {});
  Reply(0, HandoffOutcome::kAccepted);
  EXPECT_EQ(answer.error(), "live Mocker engine stopped during submission");
  EXPECT_EQ(port_.cancelled, std::vector<RequestId>{RequestId{9}});
}

}  // namespace
}  // namespace understudy::mocker::handoff
