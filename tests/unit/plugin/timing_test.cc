#include "plugin/mocker/perf_model/timing.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

constexpr double kTolerance = 5e-9;  // the expected values are printed with eight digits

// Values of the original's functions, dynamo-mocker 1.3.0.
TEST(PolynomialModel, PrefillIsTheOriginals) {
  const PolynomialModel model;
  EXPECT_NEAR(model.PrefillMs({1, 512, 0}), 24.38570362, kTolerance);
  EXPECT_EQ(model.PrefillMs({1, 128, 128}), 0.0);
  EXPECT_NEAR(model.PrefillMs({4, 400, 0}), 22.64215582, kTolerance);
  EXPECT_NEAR(model.PrefillMs({1, 8192, 0}), 169.13691840, kTolerance);
  EXPECT_EQ(model.PrefillMs({0, 0, 0}), 0.0);
}

TEST(PolynomialModel, PrefillTakesMeansByIntegerDivision) {
  const PolynomialModel model;
  EXPECT_EQ(model.PrefillMs({2, 21, 3}), model.PrefillMs({1, 18, 0}));  // 2 x (10 - 1)
}

TEST(PolynomialModel, DecodeIsTheOriginals) {
  const PolynomialModel model;
  EXPECT_NEAR(model.DecodeMs({1, 512, 0, 1048576}), 5.76636593, kTolerance);
  EXPECT_NEAR(model.DecodeMs({1, 0, 0, 1024}), 5.74, kTolerance);
  EXPECT_NEAR(model.DecodeMs({1, 1024, 0, 1024}), 34.01, kTolerance);
  EXPECT_NEAR(model.DecodeMs({1, 512, 0, 1024}), 26.31, kTolerance);
  EXPECT_NEAR(model.DecodeMs({1, 5, 0, 0}), 34.01, kTolerance) << "no total counts as full";
  EXPECT_EQ(model.DecodeMs({0, 0, 0, 1024}), 0.0);
}

TEST(ScaledTime, RoundsToNanosecondsBeforeAndAfterTheDivision) {
  EXPECT_EQ(ScaledTime(24.38570362, 1.0, false), Nanoseconds(24385704));
  EXPECT_EQ(ScaledTime(24.38570362, 10.0, false), Nanoseconds(2438570));
  // 0.0000014 ms is 1 ns before the division, so nothing is left after it; dividing first would
  // have left the same, but 1.4 ns x 2 = 3 ns against 2 x 1 ns = 2 ns shows the order.
  EXPECT_EQ(ScaledTime(0.0000014, 0.5, false), Nanoseconds(2));
}

TEST(ScaledTime, RatioZeroIsNoTimeAtAllButOneInTheStrictReference) {
  EXPECT_EQ(ScaledTime(5.74, 0.0, false), Nanoseconds(0));
  EXPECT_EQ(ScaledTime(5.74, 0.0, true), Nanoseconds(5740000));
}

TEST(ScaledTime, StaysInRangeForAbsurdRatios) {
  EXPECT_GT(ScaledTime(1e5, 1e-300, false), std::chrono::hours(24));
  EXPECT_EQ(ScaledTime(5.74, 1e300, false), Nanoseconds(0));
}

}  // namespace
}  // namespace understudy::mocker
