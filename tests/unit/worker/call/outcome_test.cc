#include "worker/call/outcome.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using End = CallOutcome::End;

CallOutcome Ended(End end, std::vector<double> token_ms = {}) {
  CallOutcome outcome;
  outcome.end = end;
  outcome.token_ms = std::move(token_ms);
  return outcome;
}

TEST(CallPercentile, IsTheNearestRank) {
  EXPECT_EQ(Percentile({}, 0.5), std::nullopt);
  EXPECT_EQ(Percentile({3}, 0.9), 3);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.9), 4);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.25), 1);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 1.0), 4);
}

TEST(CallGaps, AreCountedWithinEachRequestOnly) {
  const auto gaps = SummarizeGaps({Ended(End::kDone, {100, 110, 130}), Ended(End::kDone, {5, 10})});
  ASSERT_TRUE(gaps);
  EXPECT_EQ(gaps->count, 3U);
  EXPECT_DOUBLE_EQ(gaps->mean, 35.0 / 3);
  EXPECT_DOUBLE_EQ(gaps->p50, 10);
  EXPECT_DOUBLE_EQ(gaps->p90, 20);
  EXPECT_DOUBLE_EQ(gaps->max, 20);
}

TEST(CallGaps, NeedTwoTokens) {
  EXPECT_FALSE(SummarizeGaps({Ended(End::kDone, {100}), Ended(End::kDone)}));
}

TEST(CallExitCode, IsZeroWhenAllWentAsAsked) {
  EXPECT_EQ(ExitCodeOf({}), 0);
  EXPECT_EQ(ExitCodeOf({Ended(End::kDone), Ended(End::kCancelled)}), 0);
}

TEST(CallExitCode, IsOneWhenAnyFailed) {
  for (const auto end : {End::kRefused, End::kFailed, End::kInterrupted}) {
    EXPECT_EQ(ExitCodeOf({Ended(End::kDone), Ended(end), Ended(End::kTimedOut)}), 1) << NameOf(end);
  }
}

TEST(CallExitCode, IsFourWhenTheWorstIsATimeout) {
  EXPECT_EQ(ExitCodeOf({Ended(End::kDone), Ended(End::kTimedOut)}), 4);
}

}  // namespace
}  // namespace understudy::worker
