#include "worker/replay/number_text.h"

#include <limits>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

TEST(NumberText, GroupsThousands) {
  EXPECT_EQ(Grouped(0.0, 2), "0.00");
  EXPECT_EQ(Grouped(999.994, 2), "999.99");
  EXPECT_EQ(Grouped(999.996, 2), "1,000.00");
  EXPECT_EQ(Grouped(-1234.5, 1), "-1,234.5");
  EXPECT_EQ(Grouped(-123.5, 1), "-123.5");
  EXPECT_EQ(Grouped(1234567.0, 0), "1,234,567");
  EXPECT_EQ(Grouped(std::uint64_t{1234567}), "1,234,567");
  EXPECT_EQ(Grouped(std::uint64_t{123}), "123");
  EXPECT_EQ(Grouped(std::numeric_limits<double>::quiet_NaN(), 2), "-");
  EXPECT_EQ(Grouped(std::numeric_limits<double>::max(), 2).size(), 309U + 102U + 3U);
}

TEST(NumberText, KeepsAboutFourDigits) {
  EXPECT_EQ(Short(0.0), "0");
  EXPECT_EQ(Short(0.0012345), "0.001234");
  EXPECT_EQ(Short(12.3456), "12.35");
  EXPECT_EQ(Short(1234.56), "1,235");
  EXPECT_EQ(Short(std::numeric_limits<double>::infinity()), "-");
}

TEST(NumberText, RepeatsAGivenNumber) {
  EXPECT_EQ(Plain(60.0), "60");
  EXPECT_EQ(Plain(0.85), "0.85");
}

TEST(NumberText, ChoosesTheUnitOfATime) {
  EXPECT_EQ(TimeSpan(0.25), "0.2500 ms");
  EXPECT_EQ(TimeSpan(240.2), "240.2 ms");
  EXPECT_EQ(TimeSpan(12'500), "12.50 s");
  EXPECT_EQ(TimeSpan(200'000), "3 min 20 s");
  EXPECT_EQ(TimeSpan(3'599'999), "60 min 00 s");
  EXPECT_EQ(TimeSpan(7'500'000), "2 h 05 min");
}

TEST(NumberText, WritesRatiosAsPercentages) {
  EXPECT_EQ(Percent(0.42873), "42.87 %");
  EXPECT_EQ(Percent(0.0), "0.00 %");
}

}  // namespace
}  // namespace understudy::worker
