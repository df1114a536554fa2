#include "plugin/mocker/kv_cache/sequence.h"

#include "plugin/mocker/kv_cache/block_hash.h"

#include <numeric>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

std::vector<std::uint32_t> Range(std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> tokens(to - from);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

Sequence Prompt(std::uint32_t tokens, std::uint32_t block_size = 16) {
  Sequence sequence;
  sequence.Assign(Range(0, tokens), block_size, /*hashed=*/true);
  sequence.MakeBlocks(100);
  return sequence;
}

/// What the scheduler does with one output token; true if a block was promoted.
bool Push(Sequence& sequence, std::uint32_t token) {
  bool promoted = false;
  if (sequence.NextOpensBlock()) {
    promoted = sequence.CompleteLast();
    if (promoted) {
      sequence.blocks().back().full = true;
    }
    sequence.OpenBlock();
  }
  sequence.Append(token);
  return promoted;
}

// Hashes of tokens 1..4 and 5..8 in blocks of four: golden vector pass_vllm_single_partial.json.
TEST(BlockHash, IsTheOriginals) {
  const auto first = HashTokens(std::vector<std::uint32_t>{1, 2, 3, 4});
  const auto second = HashTokens(std::vector<std::uint32_t>{5, 6, 7, 8});
  EXPECT_EQ(Value(first), 14643705804678351452ULL);
  EXPECT_EQ(Value(second), 16777012769546811212ULL);
  const BlockHash chain = ChainHash(nullptr, first);
  EXPECT_EQ(Value(chain), 14643705804678351452ULL);
  EXPECT_EQ(Value(ChainHash(&chain, second)), 4945711292740353085ULL);
}

TEST(Sequence, PromotesABlockOneTokenAfterItIsFull) {
  Sequence sequence = Prompt(15);
  ASSERT_EQ(sequence.blocks().size(), 1U);
  EXPECT_FALSE(Push(sequence, 15));
  EXPECT_EQ(sequence.blocks().size(), 1U);
  EXPECT_TRUE(Push(sequence, 16));
  ASSERT_EQ(sequence.blocks().size(), 2U);
  EXPECT_EQ(sequence.blocks()[0].hash, ChainHash(nullptr, HashTokens(Range(0, 16))));
  EXPECT_FALSE(sequence.blocks()[1].full);
}

TEST(Sequence, OpensABlockWithoutPromotionAfterAnAlignedPrompt) {
  Sequence sequence = Prompt(48);
  ASSERT_EQ(sequence.blocks().size(), 3U);
  EXPECT_FALSE(Push(sequence, 48));
  EXPECT_EQ(sequence.blocks().size(), 4U);
}

TEST(Sequence, ChainsAPromotedBlockToTheOneBefore) {
  Sequence sequence = Prompt(40);
  for (std::uint32_t token = 40; token < 49; ++token) {
    EXPECT_EQ(Push(sequence, token), token == 48);
  }
  Sequence whole = Prompt(48);
  ASSERT_EQ(sequence.blocks().size(), 4U);
  EXPECT_EQ(sequence.blocks()[2].hash, whole.blocks()[2].hash);
  EXPECT_EQ(sequence.blocks()[2].hash,
            ChainHash(&whole.blocks()[1].hash, HashTokens(Range(32, 48))));
}

TEST(Sequence, BeginsWithNothingForAnEmptyPrompt) {
  Sequence sequence = Prompt(0);
  EXPECT_TRUE(sequence.blocks().empty());
  EXPECT_FALSE(Push(sequence, 1));
  EXPECT_EQ(sequence.blocks().size(), 1U);
}

TEST(Sequence, CanBeUsedAgain) {
  Sequence sequence = Prompt(40);
  Push(sequence, 40);
  sequence.Clear();
  sequence.Assign(Range(0, 8), 4, true);
  sequence.MakeBlocks(1);
  Sequence fresh = Prompt(8, 4);
  ASSERT_EQ(sequence.blocks().size(), 2U);
  EXPECT_EQ(sequence.blocks()[1].hash, fresh.blocks()[1].hash);
}

}  // namespace
}  // namespace understudy::mocker
