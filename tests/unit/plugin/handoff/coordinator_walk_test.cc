// Every event in every state that can be reached, and long random walks.
#include "plugin/mocker/handoff/coordinator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker::handoff {
namespace {

using ActionKind = Action::Kind;
using FactKind = Fact::Kind;
using OutcomeKind = Outcome::Kind;

constexpr engine::HandoffId kId{{7, 7}};

/// A fact, or an outcome for an action.
struct Event {
  bool is_fact = true;
  Fact fact{};
  ActionKind about = ActionKind::kComplete;
  Outcome outcome{};
};

std::vector<Event> AllEvents() {
  std::vector<Event> events;
  for (const FactKind kind : {FactKind::kSourceHeld,
                              FactKind::kDestinationReserved,
                              FactKind::kTransferCompleted,
                              FactKind::kFailed,
                              FactKind::kTimedOut,
                              FactKind::kCanceled}) {
    Event event;
    event.fact = {kind, kId, {engine::TransferTiming::Mode::kFullPrompt, 8, 1'000'000, 1.0}, 4};
    events.push_back(event);
  }
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kComplete); ++kind) {
    for (int outcome = 0; outcome <= static_cast<int>(OutcomeKind::kFailed); ++outcome) {
      Event event;
      event.is_fact = false;
      event.about = static_cast<ActionKind>(kind);
      event.outcome = {static_cast<OutcomeKind>(outcome), ""};
      events.push_back(event);
    }
  }
  return events;
}

/// A coordinator, what it asked for, and what was answered: enough to judge every reaction.
struct Walk {
  explicit Walk(Order order) : coordinator(kId, order) { Take(coordinator.Start()); }

  /// The error text, or what was asked for.
  std::string Apply(const Event& event) {
    Result<std::vector<Action>> result = std::vector<Action>();
    if (event.is_fact) {
      result = coordinator.OnFact(event.fact);
    } else {
      const auto it = ids.find(event.about);
      result = coordinator.OnOutcome(it == ids.end() ? 99 : it->second, event.outcome);
    }
    if (!result) {
      return result.error().message;
    }
    if (!event.is_fact && ids.contains(event.about)) {
      outcomes.try_emplace(event.about, event.outcome.kind);
    }
    if (event.is_fact) {
      facts.insert(event.fact.kind);
    }
    Take(*result);
    return "";
  }

  void Take(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      EXPECT_EQ(action.id, ids.size()) << "ids count without gaps";
      EXPECT_TRUE(ids.emplace(action.kind, action.id).second) << "nothing is asked for twice";
    }
  }

  void CheckInvariants() const {
    const auto asked = [this](ActionKind kind) { return ids.contains(kind); };
    const auto answered = [this](ActionKind kind) {
      const auto it = outcomes.find(kind);
      return it != outcomes.end() && it->second != OutcomeKind::kFailed;
    };
    const bool over = coordinator.mode() == Coordinator::Mode::kComplete;
    EXPECT_EQ(over, asked(ActionKind::kComplete));
    EXPECT_EQ(over, coordinator.completion().has_value());
    if (asked(ActionKind::kActivateDestination)) {
      EXPECT_TRUE(answered(ActionKind::kReserveDestination));
      EXPECT_TRUE(answered(ActionKind::kSubmitPrefill));
    }
    if (over && coordinator.completion() == Coordinator::Completion::kSuccess) {
      EXPECT_TRUE(answered(ActionKind::kActivateDestination));
      EXPECT_TRUE(answered(ActionKind::kReleaseSource));
      EXPECT_FALSE(asked(ActionKind::kCancelSource) || asked(ActionKind::kCancelDestination));
    } else if (over) {
      // M-165: every owner that was asked has been cleaned.
      EXPECT_TRUE(!asked(ActionKind::kSubmitPrefill) || answered(ActionKind::kCancelSource) ||
                  answered(ActionKind::kReleaseSource));
      EXPECT_TRUE(!asked(ActionKind::kReserveDestination) ||
                  answered(ActionKind::kCancelDestination));
    }
  }

  /// Two walks with the same name react alike to everything.
  [[nodiscard]] std::string Name() const {
    std::string name = std::to_string(static_cast<int>(coordinator.mode()));
    for (const auto& [kind, id] : ids) {
      const auto it = outcomes.find(kind);
      name += " " + std::to_string(static_cast<int>(kind)) + ":" + std::to_string(id) + ":" +
              (it == outcomes.end() ? "-" : std::to_string(static_cast<int>(it->second)));
    }
    for (const FactKind kind : facts) {
      name += " f" + std::to_string(static_cast<int>(kind));
    }
    return name;
  }

  Coordinator coordinator;
  std::map<ActionKind, std::uint64_t> ids;
  std::map<ActionKind, OutcomeKind> outcomes;
  std::set<FactKind> facts;
};

/// The texts that an event may be refused with; all others are a defect.
bool IsKnownRefusal(const std::string& text) {
  static const std::vector<std::string> kTexts = {
      "source held before prefill submission was acknowledged",
      "destination reserved before ownership was accepted",
      "transfer completed before it was scheduled",
      "unknown handoff action HandoffActionId(",
      "conflicting outcome for handoff action HandoffActionId(",
      "handoff cleanup action HandoffActionId(",
      "invalid handoff action outcome "};
  return std::any_of(kTexts.begin(), kTexts.end(), [&](const std::string& known) {
    return text.starts_with(known);
  });
}

class CoordinatorStates : public ::testing::TestWithParam<Order> {};

TEST_P(CoordinatorStates, EveryEventInEveryStateIsTakenOrRefusedInKnownWords) {
  const std::vector<Event> events = AllEvents();
  std::map<std::string, std::vector<std::size_t>> seen;  // a state and how to get there
  std::vector<std::vector<std::size_t>> frontier = {{}};
  seen[Walk(GetParam()).Name()] = {};
  std::size_t refused = 0;
  std::size_t ended = 0;
  while (!frontier.empty()) {
    const std::vector<std::size_t> path = frontier.back();
    frontier.pop_back();
    for (std::size_t i = 0; i < events.size(); ++i) {
      Walk walk(GetParam());
      for (const std::size_t step : path) {
        ASSERT_EQ(walk.Apply(events[step]), "");
      }
      const std::string text = walk.Apply(events[i]);
      if (!text.empty()) {
        ASSERT_TRUE(IsKnownRefusal(text)) << text << " in " << walk.Name();
        ++refused;
        continue;
      }
      walk.CheckInvariants();
      if (::testing::Test::HasFailure()) {
        FAIL() << walk.Name();
      }
      if (!seen.contains(walk.Name())) {
        std::vector<std::size_t> next = path;
        next.push_back(i);
        seen[walk.Name()] = next;
        ended += walk.coordinator.mode() == Coordinator::Mode::kComplete ? 1U : 0U;
        if (walk.coordinator.mode() != Coordinator::Mode::kComplete) {
          frontier.push_back(next);  // after the end everything is ignored: see below
        } else {
          for (const Event& late : events) {
            ASSERT_EQ(walk.Apply(late), "");
            ASSERT_EQ(walk.coordinator.actions_issued(), walk.ids.size());
          }
        }
      }
    }
  }
  EXPECT_GT(seen.size(), 100U);
  EXPECT_GT(ended, 10U);
  EXPECT_GT(refused, seen.size());
}

/// What the one who did `kind` answers when all went well.
OutcomeKind RightOutcome(ActionKind kind) {
  switch (kind) {
    case ActionKind::kSubmitPrefill:
      return OutcomeKind::kSubmitted;
    case ActionKind::kReserveDestination:
      return OutcomeKind::kAccepted;
    case ActionKind::kStartTransfer:
      return OutcomeKind::kScheduled;
    case ActionKind::kActivateDestination:
      return OutcomeKind::kApplied;
    default:
      return OutcomeKind::kNoop;
  }
}

bool IsCleanup(ActionKind kind) {
  return kind == ActionKind::kCancelSource || kind == ActionKind::kCancelDestination;
}

/// The answer to some action, right or (not to a cleanup) a failure.
Event AnswerTo(ActionKind kind, bool fails) {
  Event answer;
  answer.is_fact = false;
  answer.about = kind;
  answer.outcome = {fails && !IsCleanup(kind) ? OutcomeKind::kFailed : RightOutcome(kind), ""};
  return answer;
}

TEST_P(CoordinatorStates, M165_AnyInterleavingEndsAndCleansEveryOwner) {
  constexpr std::uint32_t kRuns = 50'000;  // one a seed, for each order
  std::size_t successes = 0;
  for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::uint32_t n) {
      return static_cast<std::uint32_t>(random() % n);
    };
    Walk walk(GetParam());
    const auto some_action = [&] {
      auto it = walk.ids.begin();
      std::advance(it, below(static_cast<std::uint32_t>(walk.ids.size())));
      return it->first;
    };
    for (std::uint32_t step = 0; step < 30; ++step) {
      const std::uint32_t kind = below(100);
      if (kind < 45) {
        Event fact;
        constexpr FactKind kFacts[] = {
            FactKind::kSourceHeld, FactKind::kDestinationReserved, FactKind::kTransferCompleted};
        fact.fact = {kFacts[below(3)], kId, {}, 4};
        const std::string text = walk.Apply(fact);  // refused when it comes too early
        ASSERT_TRUE(text.empty() || IsKnownRefusal(text)) << text;
      } else if (kind < 97) {
        const ActionKind about = some_action();
        if (!walk.outcomes.contains(about)) {
          ASSERT_EQ(walk.Apply(AnswerTo(about, below(40) == 0)), "") << "seed " << seed;
        }
      } else {
        Event failure;
        failure.fact = {below(2) == 0 ? FactKind::kTimedOut : FactKind::kCanceled, kId, {}, 0};
        ASSERT_EQ(walk.Apply(failure), "");
      }
    }
    Event failure;
    failure.fact = {FactKind::kFailed, kId, {}, 0};
    ASSERT_EQ(walk.Apply(failure), "");
    for (const auto& [about, id] : std::map(walk.ids)) {
      if (IsCleanup(about) && !walk.outcomes.contains(about)) {
        ASSERT_EQ(walk.Apply(AnswerTo(about, false)), "") << "seed " << seed;
      }
    }
    ASSERT_EQ(walk.coordinator.mode(), Coordinator::Mode::kComplete) << "seed " << seed;
    successes += walk.coordinator.completion() == Coordinator::Completion::kSuccess ? 1U : 0U;
    walk.CheckInvariants();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ": " << walk.Name();
  }
  EXPECT_GT(successes, kRuns / 100);
}

INSTANTIATE_TEST_SUITE_P(Orders,
                         CoordinatorStates,
                         ::testing::Values(Order::kSourceFirst, Order::kDestinationFirst),
                         [](const auto& order) {
                           return order.param == Order::kSourceFirst ? "SourceFirst"
                                                                     : "DestinationFirst";
                         });

}  // namespace
}  // namespace understudy::mocker::handoff
