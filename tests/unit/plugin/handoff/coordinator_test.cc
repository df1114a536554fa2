// The rows of the coordinator, in the reference's words.
#include "plugin/mocker/handoff/coordinator.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker::handoff {
namespace {

using ActionKind = Action::Kind;
using FactKind = Fact::Kind;
using OutcomeKind = Outcome::Kind;
using engine::HandoffId;
using engine::TransferTiming;

constexpr HandoffId kId{{1, 2}};

TransferTiming Timing(std::optional<double> delay_ms) {
  TransferTiming timing;
  timing.full_prompt_tokens = 1;
  if (delay_ms) {
    timing.kv_bytes_per_token = static_cast<std::uint64_t>(*delay_ms * 1e6);
    timing.bandwidth_gb_s = 1.0;
  }
  return timing;
}
Fact Held(TransferTiming timing) {
  return {FactKind::kSourceHeld, kId, timing, 0};
}
Fact Held() {
  return Held(Timing(std::nullopt));
}
Fact Reserved(std::uint64_t tokens = 1) {
  return {FactKind::kDestinationReserved, kId, {}, tokens};
}
Fact Plain(FactKind kind) {
  return {kind, kId, {}, 0};
}

class CoordinatorTest : public ::testing::TestWithParam<Order> {
 protected:
  static bool Has(const std::vector<Action>& actions, ActionKind kind) {
    for (const Action& action : actions) {
      if (action.kind == kind) {
        return true;
      }
    }
    return false;
  }
  static Action One(const std::vector<Action>& actions) {
    EXPECT_EQ(actions.size(), 1U);
    return actions.empty() ? Action{} : actions.front();
  }
  static std::vector<Action> Do(Coordinator& coordinator, const Fact& fact) {
    auto actions = coordinator.OnFact(fact);
    EXPECT_TRUE(actions) << actions.error().message;
    return actions.value_or(std::vector<Action>());
  }
  static std::vector<Action> Ack(Coordinator& coordinator, Action action, OutcomeKind outcome) {
    auto actions = coordinator.OnOutcome(action.id, {outcome, ""});
    EXPECT_TRUE(actions) << actions.error().message;
    return actions.value_or(std::vector<Action>());
  }
  static std::string ErrorOf(const Result<std::vector<Action>>& result) {
    return result ? "" : result.error().message;
  }

  /// Until the transfer is to be started.
  Action ToTransfer(Coordinator& coordinator, Order order, TransferTiming timing) {
    const Action first = One(coordinator.Start());
    if (order == Order::kSourceFirst) {
      EXPECT_TRUE(Ack(coordinator, first, OutcomeKind::kSubmitted).empty());
      const Action reserve = One(Do(coordinator, Held(timing)));
      EXPECT_EQ(reserve.kind, ActionKind::kReserveDestination);
      EXPECT_TRUE(Ack(coordinator, reserve, OutcomeKind::kAccepted).empty());
      return One(Do(coordinator, Reserved()));
    }
    EXPECT_TRUE(Ack(coordinator, first, OutcomeKind::kAccepted).empty());
    const Action submit = One(Do(coordinator, Reserved()));
    EXPECT_EQ(submit.kind, ActionKind::kSubmitPrefill);
    EXPECT_TRUE(Ack(coordinator, submit, OutcomeKind::kSubmitted).empty());
    return One(Do(coordinator, Held(timing)));
  }
  Action ToActivation(Coordinator& coordinator, Order order) {
    const Action transfer = ToTransfer(coordinator, order, Timing(std::nullopt));
    EXPECT_TRUE(Ack(coordinator, transfer, OutcomeKind::kScheduled).empty());
    return One(Do(coordinator, Plain(FactKind::kTransferCompleted)));
  }
  void ExpectCleanedBoth(Coordinator& coordinator, const std::vector<Action>& cleanup) {
    ASSERT_EQ(cleanup.size(), 2U);
    EXPECT_TRUE(Has(cleanup, ActionKind::kCancelSource));
    EXPECT_TRUE(Has(cleanup, ActionKind::kCancelDestination));
    EXPECT_TRUE(Ack(coordinator, cleanup[0], OutcomeKind::kNoop).empty());
    EXPECT_EQ(One(Ack(coordinator, cleanup[1], OutcomeKind::kApplied)).kind, ActionKind::kComplete);
    EXPECT_EQ(coordinator.completion(), Coordinator::Completion::kCanceled);
  }
};

TEST_P(CoordinatorTest, M149_BothOrdersReachTheSameCompletion) {
  Coordinator coordinator(kId, GetParam());
  const Action transfer = ToTransfer(coordinator, GetParam(), Timing(2.5));
  EXPECT_EQ(transfer.kind, ActionKind::kStartTransfer);
  EXPECT_EQ(transfer.delay_ms, 2.5);
  EXPECT_TRUE(Ack(coordinator, transfer, OutcomeKind::kScheduled).empty());
  const Action activate = One(Do(coordinator, Plain(FactKind::kTransferCompleted)));
  EXPECT_EQ(activate.kind, ActionKind::kActivateDestination);
  const Action release = One(Ack(coordinator, activate, OutcomeKind::kApplied));
  EXPECT_EQ(release.kind, ActionKind::kReleaseSource);
  EXPECT_EQ(One(Ack(coordinator, release, OutcomeKind::kApplied)).kind, ActionKind::kComplete);
  EXPECT_EQ(coordinator.mode(), Coordinator::Mode::kComplete);
  EXPECT_EQ(coordinator.completion(), Coordinator::Completion::kSuccess);
  EXPECT_TRUE(Ack(coordinator, release, OutcomeKind::kApplied).empty());
}

TEST_P(CoordinatorTest, M161_ActionIdsCountOverAllActions) {
  Coordinator coordinator(kId, GetParam());
  const Action activate = ToActivation(coordinator, GetParam());
  EXPECT_EQ(activate.id, 3U);
  const Action release = One(Ack(coordinator, activate, OutcomeKind::kApplied));
  EXPECT_EQ(release.id, 4U);
  EXPECT_EQ(One(Ack(coordinator, release, OutcomeKind::kNoop)).id, 5U);
  EXPECT_EQ(coordinator.actions_issued(), 6U);
}

TEST_P(CoordinatorTest, M153_ALostActivationAckIsCleanedOnFailureOrTimeout) {
  for (const FactKind kind : {FactKind::kTimedOut, FactKind::kFailed}) {
    Coordinator coordinator(kId, GetParam());
    const Action activate = ToActivation(coordinator, GetParam());
    const auto cleanup = Do(coordinator, Plain(kind));
    EXPECT_TRUE(Ack(coordinator, activate, OutcomeKind::kApplied).empty()) << "too late";
    ExpectCleanedBoth(coordinator, cleanup);
  }
}

TEST_P(CoordinatorTest, M158_ATimeoutAfterTheTransferWasScheduledCleansBoth) {
  Coordinator coordinator(kId, GetParam());
  const Action transfer = ToTransfer(coordinator, GetParam(), Timing(1.0));
  EXPECT_TRUE(Ack(coordinator, transfer, OutcomeKind::kScheduled).empty());
  ExpectCleanedBoth(coordinator, Do(coordinator, Plain(FactKind::kTimedOut)));
}

TEST_P(CoordinatorTest, M159_ALostReleaseAckStillRunsTheCleanup) {
  Coordinator coordinator(kId, GetParam());
  const Action activate = ToActivation(coordinator, GetParam());
  EXPECT_EQ(One(Ack(coordinator, activate, OutcomeKind::kApplied)).kind,
            ActionKind::kReleaseSource);
  ExpectCleanedBoth(coordinator, Do(coordinator, Plain(FactKind::kTimedOut)));
}

TEST_P(CoordinatorTest, M163_FactsInCleanupOrAfterTheEndAreIgnored) {
  Coordinator coordinator(kId, GetParam());
  const Action first = One(coordinator.Start());
  const auto cleanup = Do(coordinator, Plain(FactKind::kCanceled));
  ASSERT_EQ(cleanup.size(), 1U);
  EXPECT_TRUE(Do(coordinator, Held()).empty());
  EXPECT_TRUE(Do(coordinator, Plain(FactKind::kTransferCompleted)).empty());
  EXPECT_TRUE(Do(coordinator, Plain(FactKind::kFailed)).empty());
  EXPECT_EQ(One(Ack(coordinator, cleanup[0], OutcomeKind::kNoop)).kind, ActionKind::kComplete);
  EXPECT_TRUE(Do(coordinator, Reserved()).empty());
  EXPECT_TRUE(Ack(coordinator, first, OutcomeKind::kNoop).empty()) << "whatever it says";
  EXPECT_TRUE(Ack(coordinator, {ActionKind::kComplete, 77}, OutcomeKind::kNoop).empty());
}

TEST_P(CoordinatorTest, StartsOnce) {
  Coordinator coordinator(kId, GetParam());
  EXPECT_EQ(coordinator.Start().size(), 1U);
  EXPECT_TRUE(coordinator.Start().empty());
}

INSTANTIATE_TEST_SUITE_P(Orders,
                         CoordinatorTest,
                         ::testing::Values(Order::kSourceFirst, Order::kDestinationFirst),
                         [](const auto& order) {
                           return order.param == Order::kSourceFirst ? "SourceFirst"
                                                                     : "DestinationFirst";
                         });

using CoordinatorRows = CoordinatorTest;

TEST_F(CoordinatorRows, M150_TheTimingModePicksTheTokens) {
  for (const auto& [mode, delay_ms] : {std::pair{TransferTiming::Mode::kFullPrompt, 8.0},
                                       std::pair{TransferTiming::Mode::kDestinationMissing, 4.0}}) {
    Coordinator coordinator(kId, Order::kSourceFirst);
    Ack(coordinator, One(coordinator.Start()), OutcomeKind::kSubmitted);
    const Action reserve = One(Do(coordinator, Held({mode, 8, 1'000'000, 1.0})));
    Ack(coordinator, reserve, OutcomeKind::kAccepted);
    EXPECT_EQ(One(Do(coordinator, Reserved(4))).delay_ms, delay_ms);
  }
}

TEST_F(CoordinatorRows, M151_AFullHitKeepsATransferWithoutDelay) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  Ack(coordinator, One(coordinator.Start()), OutcomeKind::kSubmitted);
  const Action reserve =
      One(Do(coordinator, Held({TransferTiming::Mode::kDestinationMissing, 8, 1'000'000, 1.0})));
  Ack(coordinator, reserve, OutcomeKind::kAccepted);
  const Action transfer = One(Do(coordinator, Reserved(0)));
  EXPECT_EQ(transfer.kind, ActionKind::kStartTransfer);
  EXPECT_EQ(transfer.delay_ms, 0.0);
}

TEST_F(CoordinatorRows, M152_CancellationCleansWhatMayHaveBeenApplied) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  Ack(coordinator, One(coordinator.Start()), OutcomeKind::kSubmitted);
  const Action reserve = One(Do(coordinator, Held()));
  const auto cleanup = Do(coordinator, Plain(FactKind::kCanceled));
  EXPECT_TRUE(Ack(coordinator, reserve, OutcomeKind::kAccepted).empty()) << "late";
  ExpectCleanedBoth(coordinator, cleanup);
  for (const Action& action : cleanup) {
    EXPECT_TRUE(Ack(coordinator, action, OutcomeKind::kNoop).empty());
  }
}

TEST_F(CoordinatorRows, M154_FactsInTheWrongOrderAreRefused) {
  Coordinator source_first(kId, Order::kSourceFirst);
  static_cast<void>(source_first.Start());
  EXPECT_EQ(ErrorOf(source_first.OnFact(Held())),
            "source held before prefill submission was acknowledged");
  Coordinator destination_first(kId, Order::kDestinationFirst);
  static_cast<void>(destination_first.Start());
  EXPECT_EQ(ErrorOf(destination_first.OnFact(Reserved())),
            "destination reserved before ownership was accepted");
  EXPECT_EQ(ErrorOf(destination_first.OnFact(Plain(FactKind::kTransferCompleted))),
            "transfer completed before it was scheduled");
  Fact foreign = Held();
  foreign.handoff = {{9, 9}};
  EXPECT_EQ(ErrorOf(source_first.OnFact(foreign)), "fact belongs to a different handoff");
}

TEST_F(CoordinatorRows, M155_AnInvalidTimingIsRefusedBeforeAnythingIsScheduled) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  Ack(coordinator, One(coordinator.Start()), OutcomeKind::kSubmitted);
  TransferTiming timing = Timing(1.0);
  timing.bandwidth_gb_s = 0.0;
  EXPECT_EQ(ErrorOf(coordinator.OnFact(Held(timing))), "invalid handoff transfer bandwidth 0");
  EXPECT_EQ(coordinator.actions_issued(), 1U);
}

TEST_F(CoordinatorRows, M156_ATimeoutBeforeTheFirstAckCleansOnlyTheOneThatWasAsked) {
  Coordinator source_first(kId, Order::kSourceFirst);
  static_cast<void>(source_first.Start());
  EXPECT_EQ(One(Do(source_first, Plain(FactKind::kTimedOut))).kind, ActionKind::kCancelSource);
  Coordinator destination_first(kId, Order::kDestinationFirst);
  static_cast<void>(destination_first.Start());
  EXPECT_EQ(One(Do(destination_first, Plain(FactKind::kTimedOut))).kind,
            ActionKind::kCancelDestination);
}

TEST_F(CoordinatorRows, M157_AnUnacknowledgedPrefillIsCleaned) {
  Coordinator coordinator(kId, Order::kDestinationFirst);
  Ack(coordinator, One(coordinator.Start()), OutcomeKind::kAccepted);
  EXPECT_EQ(One(Do(coordinator, Reserved())).kind, ActionKind::kSubmitPrefill);
  ExpectCleanedBoth(coordinator, Do(coordinator, Plain(FactKind::kFailed)));
}

TEST_F(CoordinatorRows, M160_RepeatedOutcomesAreFineAndConflictsAreNot) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  const Action submit = One(coordinator.Start());
  Ack(coordinator, submit, OutcomeKind::kSubmitted);
  EXPECT_TRUE(Ack(coordinator, submit, OutcomeKind::kSubmitted).empty());
  EXPECT_EQ(ErrorOf(coordinator.OnOutcome(submit.id, {OutcomeKind::kApplied, ""})),
            "conflicting outcome for handoff action HandoffActionId(0)");
  EXPECT_EQ(ErrorOf(coordinator.OnOutcome(99, {OutcomeKind::kApplied, ""})),
            "unknown handoff action HandoffActionId(99)");
  const Action reserve = One(Do(coordinator, Held()));
  EXPECT_TRUE(Do(coordinator, Held()).empty());
  EXPECT_EQ(ErrorOf(coordinator.OnOutcome(reserve.id, {OutcomeKind::kApplied, ""})),
            "invalid handoff action outcome Applied");
}

TEST_F(CoordinatorRows, M164_AFailedCleanupIsAnError) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  static_cast<void>(coordinator.Start());
  const Action cancel = One(Do(coordinator, Plain(FactKind::kFailed)));
  EXPECT_EQ(ErrorOf(coordinator.OnOutcome(cancel.id, {OutcomeKind::kFailed, "no"})),
            "handoff cleanup action HandoffActionId(1) failed");
}

TEST_F(CoordinatorRows, M188_AFailedReservationIsTakenBackAndWaitedFor) {
  Coordinator coordinator(kId, Order::kSourceFirst);
  Ack(coordinator, One(coordinator.Start()), OutcomeKind::kSubmitted);
  const Action reserve = One(Do(coordinator, Held()));
  const auto cleanup = coordinator.OnOutcome(reserve.id, {OutcomeKind::kFailed, "too large"});
  ASSERT_TRUE(cleanup);
  ASSERT_EQ(cleanup->size(), 2U);
  EXPECT_EQ((*cleanup)[1].kind, ActionKind::kCancelDestination);
  EXPECT_EQ((*cleanup)[1].id, 3U) << "as captured";
  ExpectCleanedBoth(coordinator, *cleanup);
}

}  // namespace
}  // namespace understudy::mocker::handoff
