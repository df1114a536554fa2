#include "worker/replay/sample_curve.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

TEST(SampleCurve, HasNoPointWithoutASample) {
  EXPECT_TRUE(SampleCurve().Points(100).empty());
}

TEST(SampleCurve, OfOneValueIsOnePoint) {
  SampleCurve curve;
  curve.Add(12.5);
  curve.Add(12.5);
  const auto points = curve.Points(100);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].value, 12.5);
  EXPECT_EQ(points[0].share, 1.0);
}

TEST(SampleCurve, TakesZeroAndHugeValues) {
  SampleCurve curve;
  curve.Add(0.0);
  curve.Add(1e300);
  const auto points = curve.Points(100);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points.front().share, 0.5);
  EXPECT_EQ(points.back().value, 1e300);
}

class SampleCurveShape : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SampleCurveShape, FollowsTheSortedSamplesWithinItsWidth) {
  std::mt19937 random(GetParam());
  std::lognormal_distribution<double> draw(2.0, 1.5);
  SampleCurve curve;
  std::vector<double> values(5000);
  for (auto& value : values) {
    value = draw(random);
    curve.Add(value);
  }
  std::sort(values.begin(), values.end());
  const auto points = curve.Points(100);
  EXPECT_LE(points.size(), 100U);
  EXPECT_GT(points.size(), 60U);
  EXPECT_EQ(points.back().value, values.back());
  double before = 0.0;
  for (const auto& point : points) {
    EXPECT_GT(point.share, before);
    before = point.share;
    const auto index = static_cast<std::size_t>(point.share * 5000.0 + 0.5) - 1;
    EXPECT_NEAR(point.value / values[index], 1.0, 0.011);
  }
  EXPECT_EQ(before, 1.0);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SampleCurveShape, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace understudy::worker
