#include "understudy/transport/token_hash.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

std::vector<std::uint32_t> Tokens(std::uint32_t first, std::size_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TokensHash Plain(std::span<const std::uint32_t> tokens, std::uint64_t seed) {
  return HashWindow(tokens, {}, seed);
}

TEST(TokenHash, SaltsSeparateEqualTokens) {
  // Recorded from the 1.6.1 relay: case cache_salt_map and its child.
  const std::uint64_t seed = TokenHashSeed({}, "tenant-a");
  EXPECT_EQ(Plain(Tokens(1, 4), seed), TokensHash{5738685477468498325U});
  EXPECT_EQ(Plain(Tokens(5, 4), seed), TokensHash{11202231085456067787U});
  EXPECT_NE(TokenHashSeed("tenant-a", {}), seed);
  EXPECT_NE(TokenHashSeed("tenant-a", "tenant-a"), seed);
}

TEST(TokenHash, EmptyNamesAreNoNames) {
  EXPECT_EQ(TokenHashSeed("", ""), 1337U);
}

TEST(TokenHash, TheOrderOfMediaDoesNotMatter) {
  std::vector<std::uint64_t> rising{3, 9};
  std::vector<std::uint64_t> falling{9, 3};
  const auto tokens = Tokens(1, 4);
  EXPECT_EQ(HashWindow(tokens, rising, 1337), HashWindow(tokens, falling, 1337));
  EXPECT_EQ(HashWindow(tokens, rising, 1337), TokensHash{8340657703143021008U});
}

TEST(TokenWindows, AreWholeBlocksOnly) {
  const auto tokens = Tokens(0, 10);
  EXPECT_EQ(TokenWindows(tokens, 4, false).size(), 2U);
  EXPECT_EQ(TokenWindows(tokens, 5, false).size(), 2U);
  EXPECT_EQ(TokenWindows(tokens, 5, true).size(), 1U);
  EXPECT_EQ(TokenWindows(tokens, 3, true).size(), 3U);
  EXPECT_EQ(TokenWindows(tokens, 11, false).size(), 0U);
  EXPECT_EQ(TokenWindows(tokens, 0, false).size(), 0U);
  EXPECT_EQ(TokenWindows(tokens, 0, true).size(), 0U);
  EXPECT_EQ(TokenWindows({}, 1, false).size(), 0U);
  const auto window = TokenWindows(tokens, 3, true)[2];
  EXPECT_EQ(std::vector(window.begin(), window.end()), Tokens(6, 4));
}

TEST(MmPadToken, UsesTheLowThirtyBits) {
  EXPECT_EQ(MmPadToken(0x0123456789abcdefU), 163254319U);
  EXPECT_EQ(MmPadToken(~std::uint64_t{0}), 1'000'000U + 0x3fffffffU);
}

}  // namespace
}  // namespace understudy::transport
