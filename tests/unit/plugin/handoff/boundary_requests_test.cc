// Requests of hand-offs: rows M-238, M-246, M-247, M-250 to M-257.
#include "tests/unit/plugin/handoff/boundary_fixture.h"

namespace understudy::mocker::handoff {
namespace {

class BoundaryRequests : public BoundaryTest {
 protected:
  /// A request that was admitted by a reservation.
  struct Live {
    engine::HandoffRegistration registration;
    std::unique_ptr<engine::LiveRequest> life;
  };
  Live Reserve(std::uint64_t id) {
    Live live{Register(), nullptr};
    auto prepared = Prepare(id);
    live.life = std::move(prepared.life);
    CallAnswer answer;
    const auto call =
        live.registration.control->ReserveDestination(std::move(prepared.request), answer.Taker());
    Reply(port_.sent.size() - 1, HandoffOutcome::kAccepted);
    EXPECT_EQ(answer.result, HandoffOutcome::kAccepted);
    return live;
  }
  std::string PrepareError(engine::Request request, const std::string& client) {
    const auto prepared = boundary_->Prepare(std::move(request), client);
    return prepared ? "" : prepared.error().message;
  }
};

TEST_F(BoundaryRequests, PreparationIsRefusedInOrder) {
  engine::Request zero = MakeRequest(1);
  zero.output_tokens_max = 0;
  port_.running = false;
  EXPECT_EQ(PrepareError(zero, "client-1"), "live Mocker engine is not running");
  port_.running = true;
  const auto first = Prepare(1);
  EXPECT_EQ(PrepareError(zero, "client-1"),
            "live requests must generate at least one output token");
  EXPECT_EQ(PrepareError(MakeRequest(1), "client-1"), "request client-1 is already active");
  EXPECT_EQ(PrepareError(MakeRequest(1), "other"), "internal scheduler request ID collision");
}

TEST_F(BoundaryRequests, M238_APreparedRequestIsUsedOnceAndOnItsOwnEngine) {
  const auto registration = Register();
  const auto prepared = Prepare(1);
  LiveBoundary another(RankIndex{4}, {}, port_, [this](Task task) { loop_.Post(std::move(task)); });
  auto there = another.Register(kOther);
  CallAnswer foreign;
  const auto a = there->control->SubmitPrefill(prepared.request, foreign.Taker());
  loop_.RunPosted();
  EXPECT_EQ(foreign.error(), "prepared request belongs to a different live Mocker engine");
  CallAnswer first;
  const auto b = registration.control->SubmitPrefill(prepared.request, first.Taker());
  Reply(0, HandoffOutcome::kSubmitted);
  CallAnswer again;
  const auto c = registration.control->SubmitPrefill(prepared.request, again.Taker());
  loop_.RunPosted();
  EXPECT_EQ(again.error(), "prepared request was already consumed");
  boundary_.reset();
  CallAnswer gone;
  const auto d = registration.control->SubmitPrefill(prepared.request, gone.Taker());
  loop_.RunPosted();
  EXPECT_EQ(gone.error(), "live Mocker engine no longer exists");
}

TEST_F(BoundaryRequests, M246_ALateCancellationCannotCancelAReusedId) {
  Live first = Reserve(1);
  first.registration.events.reset();
  auto second = Register();  // the same hand-off id
  Answer<bool> cancelled;
  first.life->Cancel(cancelled.Taker());
  loop_.RunPosted();
  EXPECT_EQ(cancelled.result, false);
  EXPECT_EQ(port_.sent.size(), 1U) << "nothing but the reservation was sent";
  EXPECT_TRUE(port_.cancelled.empty());
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

TEST_F(BoundaryRequests, M247_DroppingAReservedRequestFreesItsRoom) {
  Live live = Reserve(1);
  live.life.reset();
  ASSERT_EQ(SentKinds(), (std::vector<Kind>{Kind::kReserveDestination, Kind::kCancelDestination}));
  Reply(1, HandoffOutcome::kApplied);
  EXPECT_EQ(boundary_->sizes().requests, 0U);
  CallAnswer after;
  const auto call = live.registration.control->CancelDestination(after.Taker());
  Reply(2, HandoffOutcome::kNoop);
  EXPECT_EQ(after.result, HandoffOutcome::kNoop);
}

TEST_F(BoundaryRequests, ACancellationWaitsForTheCommandsBeforeIt) {
  Live live = Reserve(1);
  const auto activate = live.registration.control->ActivateDestination([](const auto&) {});
  Answer<bool> cancelled;
  live.life->Cancel(cancelled.Taker());
  EXPECT_EQ(port_.sent.size(), 2U);
  Reply(1, HandoffOutcome::kApplied);
  ASSERT_EQ(port_.sent.size(), 3U);
  Reply(2, HandoffOutcome::kApplied);
  EXPECT_EQ(cancelled.result, true);
}

TEST_F(BoundaryRequests, ACancellationSaysWhatTheRankSaid) {
  Live live = Reserve(1);
  Answer<bool> cancelled;
  live.life->Cancel(cancelled.Taker());
  Reply(1, HandoffOutcome::kSubmitted);
  EXPECT_EQ(cancelled.error(),
            std::string("unexpected scheduler destination cancellation result for ") + kName +
                ": Submitted");
}

TEST_F(BoundaryRequests, M250_DroppingTheEngineClosesItsRequests) {
  Live live = Reserve(1);
  bool closed = false;
  live.life->OnClosed([&closed] { closed = true; });
  boundary_.reset();
  EXPECT_FALSE(closed);
  loop_.RunPosted();
  EXPECT_TRUE(closed);
  Answer<bool> cancelled;
  live.life->Cancel(cancelled.Taker());
  loop_.RunPosted();
  EXPECT_EQ(cancelled.result, false);
}

TEST_F(BoundaryRequests, M251_ADuplicateRequestIsRefusedAndTheOriginalIntact) {
  Live live = Reserve(1);
  EXPECT_EQ(PrepareError(MakeRequest(2), "client-1"), "request client-1 is already active");
  EXPECT_EQ(boundary_->sizes().requests, 1U);
  live.life->Finished();
  EXPECT_EQ(PrepareError(MakeRequest(2), "client-1"), "");
}

TEST_F(BoundaryRequests, M252_DroppingAPreparedRequestFreesItsNames) {
  auto prepared = Prepare(1);
  prepared.request.reset();
  EXPECT_EQ(PrepareError(MakeRequest(1), "client-1"), "");
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(BoundaryRequests, M253_TheRankNeverSeesTheClientsName) {
  // The same client name again: the rank has another id for it, so what is late finds nothing.
  Live first = Reserve(1);
  first.life->Finished();
  auto prepared = boundary_->Prepare(MakeRequest(2), "client-1");
  ASSERT_TRUE(prepared);
  const auto other = Register(kOther);
  const auto call = other.control->SubmitPrefill(prepared->request, [](const auto&) {});
  EXPECT_NE(port_.sent[0].request.id, port_.sent[1].request.id);
}

TEST_F(BoundaryRequests, M254_AbandoningOneRequestLeavesTheOthersAlone) {
  Live live = Reserve(1);
  const auto other = Register(kOther);
  auto source = Prepare(2);
  const auto call = other.control->SubmitPrefill(source.request, [](const auto&) {});
  Reply(1, HandoffOutcome::kSubmitted);
  source.life.reset();
  EXPECT_EQ(port_.cancelled, std::vector<RequestId>{RequestId{2}});
  EXPECT_EQ(boundary_->sizes().requests, 1U);
  EXPECT_EQ(port_.sent.size(), 2U) << "the reserved one is not touched";
}

TEST_F(BoundaryRequests, M255_ARequestWithoutOutputIsRefusedBeforeAnythingIsRegistered) {
  engine::Request request = MakeRequest(1);
  request.output_tokens_max = 0;
  EXPECT_EQ(PrepareError(request, "client-1"),
            "live requests must generate at least one output token");
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

TEST_F(BoundaryRequests, M256_DroppingAnActiveRequestCleansUpAndFreesItsNames) {
  const auto registration = Register();
  auto prepared = Prepare(1);
  const auto call = registration.control->SubmitPrefill(prepared.request, [](const auto&) {});
  Reply(0, HandoffOutcome::kSubmitted);
  prepared.life.reset();
  EXPECT_EQ(port_.cancelled, std::vector<RequestId>{RequestId{1}});
  EXPECT_EQ(PrepareError(MakeRequest(1), "client-1"), "");
}

TEST_F(BoundaryRequests, M257_ACancellationDuringSubmissionWaitsForItsAnswer) {
  const auto registration = Register();
  auto prepared = Prepare(1);
  auto call = registration.control->ReserveDestination(prepared.request, [](const auto&) {});
  call.reset();  // the submitter is gone, and so is the one who wanted the output
  Answer<bool> cancelled;
  prepared.life->Cancel(cancelled.Taker());
  prepared.life.reset();
  EXPECT_EQ(port_.sent.size(), 1U);
  Reply(0, HandoffOutcome::kAccepted);
  ASSERT_EQ(port_.sent.size(), 2U);
  EXPECT_EQ(port_.sent[1].kind, Kind::kCancelDestination);
  Reply(1, HandoffOutcome::kApplied);
  EXPECT_EQ(cancelled.result, true);
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

TEST_F(BoundaryRequests, ARequestThatIsFinishedHasNothingToCancel) {
  Live live = Reserve(1);
  live.life->Finished();
  live.life.reset();
  EXPECT_EQ(port_.sent.size(), 1U);
  EXPECT_EQ(boundary_->sizes().requests, 0U);
}

}  // namespace
}  // namespace understudy::mocker::handoff
