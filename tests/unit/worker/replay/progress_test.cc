#include "worker/replay/progress.h"

#include "tests/fakes/manual_clock.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Shown {
  explicit Shown(ReplayProgressView::Style style)
      : view(clock, style, [this](std::string_view text) { written.emplace_back(text); }) {}

  void After(Nanoseconds time, std::uint64_t done) {
    clock.Advance(time);
    view.Update({done, 100'000, 2'000.0 * static_cast<double>(done)});
  }

  ManualClock clock;
  std::vector<std::string> written;
  ReplayProgressView view;
};

ReplayProgressView::Style Terminal() {
  ReplayProgressView::Style style;
  style.terminal = true;
  style.columns = 120;
  return style;
}

TEST(ReplayProgress, ShowsNothingForAShortRun) {
  Shown shown(Terminal());
  shown.After(milliseconds(499), 90'000);
  shown.view.Finish();
  EXPECT_TRUE(shown.written.empty());
}

TEST(ReplayProgress, DrawsABarWithRateAndTimeLeft) {
  Shown shown(Terminal());
  shown.After(seconds(1), 25'000);
  ASSERT_EQ(shown.written.size(), 1U);
  EXPECT_EQ(shown.written[0],
            "\r\x1b[K[######------------------] 25 % 25,000 of 100,000 requests, 25,000/s, "
            "13 h 53 min simulated, ETA 3.000 s");
}

TEST(ReplayProgress, RedrawsAtMostTenTimesASecondAndCleansUp) {
  Shown shown(Terminal());
  shown.After(seconds(1), 25'000);
  shown.After(milliseconds(99), 26'000);
  EXPECT_EQ(shown.written.size(), 1U);
  shown.After(milliseconds(1), 27'000);
  EXPECT_EQ(shown.written.size(), 2U);
  shown.view.Finish();
  EXPECT_EQ(shown.written.back(), "\r\x1b[K");
  shown.view.Finish();
  EXPECT_EQ(shown.written.size(), 3U);
}

TEST(ReplayProgress, NeverWrapsALineOfTheTerminal) {
  for (const std::size_t columns : {1U, 20U, 40U, 80U, 100U}) {
    auto style = Terminal();
    style.columns = columns;
    Shown shown(style);
    shown.After(seconds(3), 50'000);
    ASSERT_EQ(shown.written.size(), 1U);
    EXPECT_LT(shown.written[0].size() - std::string("\r\x1b[K").size(), columns);
  }
}

TEST(ReplayProgress, ColoursOnlyWhenAsked) {
  auto style = Terminal();
  style.colour = true;
  Shown shown(style);
  shown.After(seconds(1), 25'000);
  EXPECT_NE(shown.written[0].find("\x1b[32m######"), std::string::npos);
}

TEST(ReplayProgress, WritesALineEveryTenSecondsWithoutATerminal) {
  Shown shown({});
  shown.After(milliseconds(9'999), 10'000);
  EXPECT_TRUE(shown.written.empty());
  shown.After(milliseconds(1), 10'000);
  shown.After(seconds(9), 30'000);
  shown.After(seconds(1), 40'000);
  shown.view.Finish();
  ASSERT_EQ(shown.written.size(), 2U);
  EXPECT_EQ(shown.written[0],
            "understudy replay: 10 % 10,000 of 100,000 requests, 1,000/s, 5 h 33 min simulated, "
            "ETA 1 min 30 s\n");
  EXPECT_EQ(shown.written[1].find('\x1b'), std::string::npos);
}

TEST(ReplayProgress, MakesNoPromiseBeforeTheFirstRequestIsOver) {
  EXPECT_EQ(ProgressText({0, 0, 10.0}, 1.0), "0 % 0 of 0 requests, 0/s, 10.00 ms simulated");
}

}  // namespace
}  // namespace understudy::worker
