#include "plugin/mocker/scheduler/output_tokens.h"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

constexpr std::uint32_t kStart = 11;
constexpr std::uint32_t kEnd = 12;

std::vector<std::uint32_t> Visible(std::uint64_t count, std::optional<double> thinking_ratio) {
  OutputTokens tokens;
  tokens.Assign(1,
                {},
                count,
                thinking_ratio ? std::optional(ReasoningOptions{kStart, kEnd, *thinking_ratio})
                               : std::nullopt);
  std::vector<std::uint32_t> ids;
  for (std::uint64_t i = 0; i < count; ++i) {
    ids.push_back(tokens.Next(i).visible);
  }
  return ids;
}

/// Random ids as 0, so that spans can be compared.
std::vector<std::uint32_t> Shape(std::uint64_t count, double thinking_ratio) {
  auto ids = Visible(count, thinking_ratio);
  for (auto& id : ids) {
    id = id >= 1000 ? 0 : id;
  }
  return ids;
}

using Ids = std::vector<std::uint32_t>;

// M-098.
TEST(OutputTokens, RandomIdsSpreadOverAThousand) {
  std::array<int, 1000> seen{};
  for (const auto id : Visible(10'000, std::nullopt)) {
    ASSERT_GE(id, 1000U);
    ASSERT_LT(id, 2000U);
    ++seen[id - 1000];
  }
  int missing = 0;
  double chi_square = 0;
  for (const int count : seen) {
    missing += count == 0 ? 1 : 0;
    chi_square += (count - 10.0) * (count - 10.0) / 10.0;
  }
  EXPECT_LE(missing, 5);
  // 999 degrees of freedom: mean 999, standard deviation 45; the seed is fixed.
  EXPECT_GT(chi_square, 800.0);
  EXPECT_LT(chi_square, 1200.0);
}

TEST(OutputTokens, TheCacheIsToldOtherIdsThanTheClient) {
  OutputTokens tokens;
  tokens.Assign(7, {}, 100, std::nullopt);
  int equal = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    const auto token = tokens.Next(i);
    equal += token.hidden == token.visible ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

// M-099.
TEST(OutputTokens, ThinkingLengthIsTheFlooredShareOfAtLeastTwo) {
  struct Case {
    std::uint64_t budget;
    double ratio;
    std::uint64_t length;
  };
  for (const auto& [budget, ratio, length] : std::vector<Case>{{0, 1.0, 0},
                                                               {1, 1.0, 0},
                                                               {2, 0.0, 0},
                                                               {2, 0.49, 0},
                                                               {2, 0.5, 2},
                                                               {2, 1.0, 2},
                                                               {3, 0.6, 2},
                                                               {10, 0.6, 6},
                                                               {10, 0.09, 0},
                                                               {10, 0.1, 2},
                                                               {10, 0.35, 3},
                                                               {10, 1.0, 10},
                                                               {10, 1.5, 10},
                                                               {1U << 31U, 0.5, 1U << 30U}}) {
    EXPECT_EQ(OutputTokens::ThinkingLength(budget, ratio), length) << budget << " * " << ratio;
  }
}

// M-100; the first three were recorded from a 1.3.0 worker.
TEST(OutputTokens, AThinkingSpanHasBothEnds) {
  EXPECT_EQ(Shape(10, 0.6), (Ids{kStart, 0, 0, 0, 0, kEnd, 0, 0, 0, 0}));
  EXPECT_EQ(Shape(3, 0.6), (Ids{kStart, kEnd, 0}));
  EXPECT_EQ(Shape(2, 0.6), (Ids{kStart, kEnd}));
  EXPECT_EQ(Shape(1, 0.6), (Ids{0}));
  EXPECT_EQ(Shape(4, 0.0), (Ids{0, 0, 0, 0}));
}

// M-101.
TEST(OutputTokens, AWholeAnswerOfThinkingEndsWithTheEndToken) {
  EXPECT_EQ(Shape(5, 1.0), (Ids{kStart, 0, 0, 0, kEnd}));
}

// M-094.
TEST(OutputTokens, PlannedIdsAreSaidAsTheyAreWithoutThinking) {
  OutputTokens tokens;
  tokens.Assign(1, {7, 8, 9}, 3, ReasoningOptions{kStart, kEnd, 1.0});
  for (std::size_t i = 0; i < 3; ++i) {
    const auto token = tokens.Next(i);
    EXPECT_EQ(token.visible, 7 + i);
    EXPECT_EQ(token.hidden, 7 + i) << "a follow-up prompt finds its blocks";
  }
}

TEST(OutputTokens, TheSameSeedGivesTheSameIds) {
  EXPECT_EQ(Visible(50, std::nullopt), Visible(50, std::nullopt));
  OutputTokens other;
  other.Assign(2, {}, 50, std::nullopt);
  Ids ids;
  for (std::size_t i = 0; i < 50; ++i) {
    ids.push_back(other.Next(i).visible);
  }
  EXPECT_NE(ids, Visible(50, std::nullopt));
}

}  // namespace
}  // namespace understudy::mocker
