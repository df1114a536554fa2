#include "plugin/mocker/handoff/transfer_timing.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace understudy::mocker::handoff {
namespace {

using engine::TransferTiming;
using Mode = TransferTiming::Mode;

TransferTiming Timing(Mode mode,
                      std::uint64_t tokens,
                      std::optional<std::uint64_t> bytes,
                      std::optional<double> bandwidth) {
  return {mode, tokens, bytes, bandwidth};
}

TEST(TransferTiming, M162_DelayIsBytesOverBandwidth) {
  EXPECT_EQ(DelayMs(Timing(Mode::kFullPrompt, 128, 1'000'000, 1.0), 4), 128.0);
  EXPECT_EQ(DelayMs(Timing(Mode::kFullPrompt, 10, 1'000'000, 1.0), 0), 10.0);
  EXPECT_EQ(DelayMs(Timing(Mode::kDestinationMissing, 128, 1'000'000, 1.0), 4), 4.0);
  EXPECT_EQ(DelayMs(Timing(Mode::kDestinationMissing, 128, 1'000'000, 1.0), 0), 0.0);
  EXPECT_DOUBLE_EQ(*DelayMs(Timing(Mode::kFullPrompt, 60, 45'056, 0.01), 64), 270.336);
  EXPECT_DOUBLE_EQ(*DelayMs(Timing(Mode::kDestinationMissing, 60, 45'056, 0.01), 64), 288.3584);
  EXPECT_DOUBLE_EQ(*DelayMs(Timing(Mode::kDestinationMissing, 60, 45'056, 0.01), 16), 72.0896);
}

TEST(TransferTiming, M162_NoDelayWithoutBytesOrBandwidth) {
  EXPECT_FALSE(DelayMs(Timing(Mode::kFullPrompt, 10, std::nullopt, 1.0), 0));
  EXPECT_FALSE(DelayMs(Timing(Mode::kFullPrompt, 10, 1, std::nullopt), 0));
  EXPECT_FALSE(DelayMs(Timing(Mode::kFullPrompt, 10, 1, 0.0), 0));
  EXPECT_FALSE(DelayMs(Timing(Mode::kFullPrompt, 10, 1, -1.0), 0));
}

TEST(TransferTiming, SaysWhenTheDelayIsKnown) {
  EXPECT_EQ(KnownDelayMs(Timing(Mode::kFullPrompt, 10, 1'000'000, 1.0), std::nullopt)->value(),
            10.0);
  EXPECT_TRUE(KnownDelayMs(Timing(Mode::kFullPrompt, 10, 1, std::nullopt), std::nullopt));
  const TransferTiming missing = Timing(Mode::kDestinationMissing, 10, 1'000'000, 1.0);
  EXPECT_FALSE(KnownDelayMs(missing, std::nullopt));
  EXPECT_EQ(KnownDelayMs(missing, 3)->value(), 3.0);
}

struct Refused {
  double bandwidth;
  const char* text;
};

class RefusedBandwidth : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedBandwidth, IsNamedAsRustWouldPrintIt) {
  const Status status = ValidateTiming(Timing(Mode::kFullPrompt, 1, 1, GetParam().bandwidth));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    RefusedBandwidth,
    ::testing::Values(Refused{0.0, "invalid handoff transfer bandwidth 0"},
                      Refused{-1.0, "invalid handoff transfer bandwidth -1"},
                      Refused{-0.5, "invalid handoff transfer bandwidth -0.5"},
                      Refused{-1e21, "invalid handoff transfer bandwidth -1000000000000000000000"},
                      Refused{std::numeric_limits<double>::infinity(),
                              "invalid handoff transfer bandwidth inf"},
                      Refused{-std::numeric_limits<double>::infinity(),
                              "invalid handoff transfer bandwidth -inf"},
                      Refused{std::nan(""), "invalid handoff transfer bandwidth NaN"}));

TEST(TransferTiming, AnInfiniteDelayIsRefused) {
  constexpr auto kMany = std::numeric_limits<std::uint64_t>::max();
  const Status status = ValidateTiming(Timing(Mode::kFullPrompt, kMany, kMany, 1e-290));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "invalid handoff transfer delay inf");
  EXPECT_EQ(ValidateDelay(-2.0).error().message, "invalid handoff transfer delay -2");
  EXPECT_TRUE(ValidateDelay(std::nullopt));
  EXPECT_TRUE(ValidateTiming(Timing(Mode::kFullPrompt, 60, std::nullopt, std::nullopt)));
}

}  // namespace
}  // namespace understudy::mocker::handoff
