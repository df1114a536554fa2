// The replay has a coordinator of its own, without ids and texts: it asks for the same steps.
#include "plugin/mocker/handoff/coordinator.h"
#include "plugin/mocker/replay/handoff_coordinator.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker::handoff {
namespace {

using FactKind = Fact::Kind;
using OutcomeKind = Outcome::Kind;
using Kinds = std::vector<int>;

constexpr engine::HandoffId kId{{3, 3}};

/// The live one, whose commands are answered at once, as the replay's are. Both number the actions
/// alike.
class Answered {
 public:
  explicit Answered(Order order) : coordinator_(kId, order) {}

  Kinds Start() { return Take(coordinator_.Start()); }
  Kinds On(HandoffEvent event) {
    switch (event) {
      case HandoffEvent::kSourceHeld:
        return Tell(FactKind::kSourceHeld);
      case HandoffEvent::kDestinationReserved:
        return Tell(FactKind::kDestinationReserved);
      case HandoffEvent::kTransferred:
        return Tell(FactKind::kTransferCompleted);
      case HandoffEvent::kFailed:
        return Tell(FactKind::kFailed);
      case HandoffEvent::kActivated:
        return Answer(Action::Kind::kActivateDestination);
      case HandoffEvent::kReleased:
        return Answer(Action::Kind::kReleaseSource);
      case HandoffEvent::kSourceCanceled:
        return Answer(Action::Kind::kCancelSource);
      case HandoffEvent::kDestinationCanceled:
        return Answer(Action::Kind::kCancelDestination);
    }
    return {};
  }
  [[nodiscard]] bool asked(Action::Kind kind) const { return ids_.contains(kind); }
  [[nodiscard]] bool complete() const { return coordinator_.completion().has_value(); }
  [[nodiscard]] bool canceled() const {
    return coordinator_.completion() == Coordinator::Completion::kCanceled;
  }

 private:
  Kinds Tell(FactKind kind) { return Take(coordinator_.OnFact({kind, kId, {}, 16})); }
  Kinds Answer(Action::Kind kind) {
    return Take(coordinator_.OnOutcome(ids_.at(kind), {OutcomeKind::kApplied, ""}));
  }
  Kinds Take(const Result<std::vector<Action>>& actions) {
    EXPECT_TRUE(actions) << actions.error().message;
    Kinds kinds;
    for (const Action& action : actions.value_or(std::vector<Action>())) {
      ids_[action.kind] = action.id;
      kinds.push_back(static_cast<int>(action.kind));
      const std::map<Action::Kind, OutcomeKind> at_once = {
          {Action::Kind::kSubmitPrefill, OutcomeKind::kSubmitted},
          {Action::Kind::kReserveDestination, OutcomeKind::kAccepted},
          {Action::Kind::kStartTransfer, OutcomeKind::kScheduled}};
      if (const auto it = at_once.find(action.kind); it != at_once.end()) {
        EXPECT_TRUE(coordinator_.OnOutcome(action.id, {it->second, ""})->empty());
      }
    }
    return kinds;
  }

  Coordinator coordinator_;
  std::map<Action::Kind, std::uint64_t> ids_;
};

/// What may happen now, in either.
std::vector<HandoffEvent> Possible(const Answered& live) {
  using Kind = Action::Kind;
  std::vector<HandoffEvent> events = {HandoffEvent::kFailed};
  const std::pair<Kind, HandoffEvent> kFollows[] = {
      {Kind::kSubmitPrefill, HandoffEvent::kSourceHeld},
      {Kind::kReserveDestination, HandoffEvent::kDestinationReserved},
      {Kind::kStartTransfer, HandoffEvent::kTransferred},
      {Kind::kActivateDestination, HandoffEvent::kActivated},
      {Kind::kReleaseSource, HandoffEvent::kReleased},
      {Kind::kCancelSource, HandoffEvent::kSourceCanceled},
      {Kind::kCancelDestination, HandoffEvent::kDestinationCanceled}};
  for (const auto& [asked, event] : kFollows) {
    if (live.asked(asked)) {
      events.insert(events.end(), 4, event);
    }
  }
  return events;
}

TEST(CoordinatorTwins, M149_AskForTheSameStepsInTheSameOrder) {
  constexpr std::uint32_t kRuns = 10'000;
  std::uint32_t canceled = 0;
  for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
    std::mt19937 random(seed);
    const bool source_first = seed % 2 == 0;
    Answered live(source_first ? Order::kSourceFirst : Order::kDestinationFirst);
    HandoffCoordinator replay(source_first ? HandoffOrder::kSourceFirst
                                           : HandoffOrder::kDestinationFirst);
    ASSERT_EQ(live.Start(), Kinds{static_cast<int>(replay.Start())});
    for (int step = 0; step < 300 && !live.complete(); ++step) {
      const std::vector<HandoffEvent> events = Possible(live);
      const HandoffEvent event = events[random() % events.size()];
      std::vector<HandoffAction> actions;
      replay.On(event, actions);
      Kinds kinds;
      for (const HandoffAction action : actions) {
        kinds.push_back(static_cast<int>(action));
      }
      ASSERT_EQ(live.On(event), kinds) << "seed " << seed << " step " << step;
      ASSERT_EQ(live.complete(), replay.complete()) << "seed " << seed;
    }
    ASSERT_TRUE(live.complete()) << "seed " << seed;
    EXPECT_EQ(live.canceled(), replay.canceled());
    canceled += live.canceled() ? 1U : 0U;
  }
  EXPECT_GT(canceled, kRuns / 10);
  EXPECT_LT(canceled, kRuns * 9 / 10);
}

}  // namespace
}  // namespace understudy::mocker::handoff
