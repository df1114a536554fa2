// When turns of sessions become ready, open and closed loop; the order of hand-off steps.
#include "plugin/mocker/replay/handoff_coordinator.h"
#include "plugin/mocker/replay/workload.h"
#include "tests/unit/plugin/replay_case.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

std::string Turn(const std::string& session, const std::string& when, int id) {
  return R"({"session_id":")" + session + R"(",)" + when + R"(,"output_length":1,"hash_ids":[)" +
         std::to_string(id) + "]}";
}

class WorkloadTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& lines,
             std::optional<std::uint32_t> concurrency,
             double speedup = 1.0) {
    file_ = std::make_unique<TraceFile>(lines);
    source_ = NewMooncakeReader(file_->path());
    workload_ = std::make_unique<Workload>(*source_, concurrency, speedup);
    const Status opened = workload_->Open();
    ASSERT_TRUE(opened) << opened.error().message;
  }

  /// Ids of the turns that are ready, and when they arrived; remembers their places.
  std::vector<std::pair<std::uint64_t, double>> PopAll(double now_ms) {
    std::vector<std::pair<std::uint64_t, double>> popped;
    ReplayRow row;
    double arrival_ms = 0.0;
    for (;;) {
      const Result<bool> there = workload_->PopReady(now_ms, row, arrival_ms);
      EXPECT_TRUE(there);
      if (!*there) {
        return popped;
      }
      places_[row.hash_ids[0]] = {row.ordinal, row.turn, row.next, row.next_delay_ms};
      popped.emplace_back(row.hash_ids[0], arrival_ms);
    }
  }

  void End(std::uint64_t id, double now_ms) { workload_->OnTerminal(places_.at(id), now_ms); }

  using Popped = std::vector<std::pair<std::uint64_t, double>>;

  std::unique_ptr<TraceFile> file_;
  std::unique_ptr<ReplaySource> source_;
  std::unique_ptr<Workload> workload_;
  std::map<std::uint64_t, SessionPlace> places_;
};

TEST_F(WorkloadTest, ALaterTurnArrivesItsDelayAfterTheTurnBefore) {
  Start({Turn("a", R"("timestamp":0)", 1),
         Turn("a", R"("delay":10)", 2),
         Turn("b", R"("timestamp":5)", 3)},
        std::nullopt);
  EXPECT_EQ(PopAll(0.0), (Popped{{1, 0.0}}));
  EXPECT_EQ(workload_->NextReadyMs(), 5.0);
  EXPECT_EQ(PopAll(6.0), (Popped{{3, 5.0}}));
  EXPECT_EQ(workload_->NextReadyMs(), std::nullopt) << "the next turn waits for the first";
  EXPECT_TRUE(workload_->drained());
  End(1, 40.0);
  EXPECT_FALSE(workload_->drained());
  EXPECT_EQ(PopAll(49.0), Popped{});
  EXPECT_EQ(PopAll(50.0), (Popped{{2, 50.0}}));
  EXPECT_EQ(places_.at(2).turn, 1U);
}

TEST_F(WorkloadTest, SessionsThatAreReadyTogetherComeInTheOrderOfTheFile) {
  Start({Turn("a", R"("timestamp":0)", 1),
         Turn("b", R"("timestamp":0)", 2),
         Turn("c", R"("timestamp":30)", 5),
         Turn("b", R"("delay":10)", 3),
         Turn("a", R"("delay":10)", 4)},
        std::nullopt);
  EXPECT_EQ(PopAll(0.0), (Popped{{1, 0.0}, {2, 0.0}}));
  End(2, 20.0);
  End(1, 20.0);
  EXPECT_EQ(PopAll(30.0), (Popped{{4, 30.0}, {3, 30.0}, {5, 30.0}}));
}

TEST_F(WorkloadTest, TheSpeedupDividesTimesAndDelays) {
  Start({Turn("a", R"("timestamp":100)", 1),
         Turn("a", R"("delay":30)", 2),
         Turn("b", R"("timestamp":190)", 3)},
        std::nullopt,
        3.0);
  EXPECT_EQ(PopAll(0.0), (Popped{{1, 0.0}}));
  EXPECT_EQ(PopAll(30.0), (Popped{{3, 30.0}}));
  End(1, 40.0);
  EXPECT_EQ(workload_->NextReadyMs(), 50.0);
}

TEST_F(WorkloadTest, AClosedLoopHoldsAPlaceForAllTurnsOfASession) {
  Start({Turn("a", R"("timestamp":0)", 1),
         Turn("b", R"("timestamp":0)", 2),
         Turn("c", R"("timestamp":0)", 3),
         Turn("a", R"("delay":10)", 4)},
        2,
        5.0);
  EXPECT_EQ(PopAll(0.0), (Popped{{1, 0.0}, {2, 0.0}}));
  EXPECT_EQ(workload_->NextReadyMs(), std::nullopt);
  End(1, 20.0);
  EXPECT_EQ(workload_->NextReadyMs(), 30.0) << "thinking; its place is not free. No speedup here";
  End(2, 25.0);
  EXPECT_EQ(PopAll(26.0), (Popped{{3, 26.0}})) << "arrives when it is sent";
  EXPECT_EQ(PopAll(31.0), (Popped{{4, 31.0}}));
  EXPECT_TRUE(workload_->drained());
}

using Actions = std::vector<HandoffAction>;

Actions Tell(HandoffCoordinator& coordinator, HandoffEvent event) {
  Actions actions;
  coordinator.On(event, actions);
  return actions;
}

TEST(HandoffCoordinator, SourceFirstComputesBeforeItLooksForRoom) {
  HandoffCoordinator c(HandoffOrder::kSourceFirst);
  EXPECT_EQ(c.Start(), HandoffAction::kSubmitPrefill);
  EXPECT_EQ(Tell(c, HandoffEvent::kSourceHeld), Actions{HandoffAction::kReserveDestination});
  EXPECT_EQ(Tell(c, HandoffEvent::kDestinationReserved), Actions{HandoffAction::kStartTransfer});
  EXPECT_EQ(Tell(c, HandoffEvent::kTransferred), Actions{HandoffAction::kActivateDestination});
  EXPECT_EQ(Tell(c, HandoffEvent::kActivated), Actions{HandoffAction::kReleaseSource});
  EXPECT_EQ(Tell(c, HandoffEvent::kReleased), Actions{HandoffAction::kComplete});
  EXPECT_TRUE(c.complete());
  EXPECT_FALSE(c.canceled());
}

TEST(HandoffCoordinator, DestinationFirstLooksForRoomBeforeItComputes) {
  HandoffCoordinator c(HandoffOrder::kDestinationFirst);
  EXPECT_EQ(c.Start(), HandoffAction::kReserveDestination);
  EXPECT_EQ(Tell(c, HandoffEvent::kDestinationReserved), Actions{HandoffAction::kSubmitPrefill});
  EXPECT_EQ(Tell(c, HandoffEvent::kSourceHeld), Actions{HandoffAction::kStartTransfer});
}

/// How often each action was asked for after a path of events.
std::map<HandoffAction, int> Walk(HandoffOrder order, const std::vector<HandoffEvent>& path) {
  HandoffCoordinator c(order);
  std::map<HandoffAction, int> asked{{c.Start(), 1}};
  for (const HandoffEvent event : path) {
    for (const HandoffAction action : Tell(c, event)) {
      ++asked[action];
    }
  }
  return asked;
}

TEST(HandoffCoordinator, NoPathOfEventsAsksTwiceOrAfterTheEnd) {
  constexpr int kEvents = 8;
  for (const HandoffOrder order : {HandoffOrder::kSourceFirst, HandoffOrder::kDestinationFirst}) {
    for (int code = 0; code < kEvents * kEvents * kEvents * kEvents * kEvents; ++code) {
      std::vector<HandoffEvent> path;
      for (int rest = code, i = 0; i < 5; ++i, rest /= kEvents) {
        path.push_back(static_cast<HandoffEvent>(rest % kEvents));
      }
      for (const auto& [action, times] : Walk(order, path)) {
        ASSERT_EQ(times, 1) << "path " << code << " action " << static_cast<int>(action);
      }
    }
  }
}

TEST(HandoffCoordinator, AFailureCleansUpWhatWasAskedFor) {
  HandoffCoordinator early(HandoffOrder::kSourceFirst);
  (void)early.Start();
  EXPECT_EQ(Tell(early, HandoffEvent::kFailed), Actions{HandoffAction::kCancelSource});
  EXPECT_EQ(Tell(early, HandoffEvent::kSourceHeld), Actions{}) << "late";
  EXPECT_EQ(Tell(early, HandoffEvent::kSourceCanceled), Actions{HandoffAction::kComplete});
  EXPECT_TRUE(early.canceled());

  HandoffCoordinator late(HandoffOrder::kSourceFirst);
  (void)late.Start();
  (void)Tell(late, HandoffEvent::kSourceHeld);
  EXPECT_EQ(Tell(late, HandoffEvent::kFailed),
            (Actions{HandoffAction::kCancelSource, HandoffAction::kCancelDestination}));
  EXPECT_EQ(Tell(late, HandoffEvent::kDestinationCanceled), Actions{});
  EXPECT_EQ(Tell(late, HandoffEvent::kSourceCanceled), Actions{HandoffAction::kComplete});
}

}  // namespace
}  // namespace understudy::mocker
