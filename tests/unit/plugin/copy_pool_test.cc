#include "plugin/mocker/kv_cache/copy_pool.h"

#include <random>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Log = KvPool::EventLog;
using Kind = engine::KvEvent::Kind;

std::vector<LogicalBlock> Chain(std::initializer_list<std::uint64_t> hashes) {
  std::vector<LogicalBlock> blocks;
  for (const std::uint64_t hash : hashes) {
    blocks.push_back({BlockHash{hash}, TokensHash{hash + 1000}, kNoIndex, true});
  }
  return blocks;
}

void ReleaseAll(KvPool& pool, std::vector<LogicalBlock>& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (block->slot != kNoIndex) {
      pool.Release(*block);
    }
  }
}

/// Takes slots for all blocks, as many of the first from the cache as there are, and publishes.
bool Compute(KvPool& pool, std::vector<LogicalBlock>& blocks, Log& log) {
  const std::size_t known = pool.FindPrefix(blocks).blocks;
  if (!pool.Use(blocks, 0, blocks.size(), known, log)) {
    return false;
  }
  pool.Publish(blocks, 0, blocks.size(), log);
  return true;
}

std::vector<std::uint64_t> Hashes(const engine::KvEvent& event) {
  std::vector<std::uint64_t> hashes;
  for (const engine::KvBlock& block : event.blocks) {
    hashes.push_back(Value(block.block_hash));
  }
  return hashes;
}

TEST(CopyPool, ABlockIsUnknownUntilItIsComputed) {
  CopyPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 2});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  EXPECT_EQ(pool.FindPrefix(a).blocks, 0U);
  EXPECT_TRUE(log.empty());
  pool.Publish(a, 0, 1, log);
  EXPECT_EQ(pool.FindPrefix(a).blocks, 1U);
  pool.Publish(a, 0, 2, log);
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[1].parent, BlockHash{1});
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(CopyPool, EqualBlocksComputedAtOnceAreCopiesAndOnlyTheFirstIsReported) {
  CopyPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1, 2});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  pool.Publish(a, 0, 2, log);
  pool.Publish(b, 0, 2, log);
  EXPECT_EQ(log.size(), 1U);
  EXPECT_EQ(pool.active(), 4U);
  ReleaseAll(pool, a);
  ReleaseAll(pool, b);
  EXPECT_EQ(pool.cached(), 4U);
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(CopyPool, RemovedGoesOutWithTheLastCopy) {
  CopyPool pool({.blocks_total = 2});
  Log log;
  auto a = Chain({1});
  auto b = Chain({1});
  ASSERT_TRUE(pool.Use(a, 0, 1, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 1, 0, log));
  pool.Publish(a, 0, 1, log);
  pool.Publish(b, 0, 1, log);
  ReleaseAll(pool, a);
  ReleaseAll(pool, b);
  log.clear();
  auto c = Chain({7});
  ASSERT_TRUE(Compute(pool, c, log));
  ASSERT_EQ(log.size(), 1U) << "the other copy is still there";
  EXPECT_EQ(log[0].kind, Kind::kStored);
  auto again = Chain({1});
  EXPECT_EQ(pool.FindPrefix(again).blocks, 1U);
  auto d = Chain({8});
  ASSERT_TRUE(Compute(pool, d, log));
  ASSERT_EQ(log.size(), 3U);
  EXPECT_EQ(log[1].kind, Kind::kRemoved) << "before what is stored in its place";
  EXPECT_EQ(Hashes(log[1]), std::vector<std::uint64_t>{1});
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(CopyPool, EvictsTheOneUnusedForLongestTailsFirst) {
  CopyPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({11, 12});
  ASSERT_TRUE(Compute(pool, a, log));
  ASSERT_TRUE(Compute(pool, b, log));
  ReleaseAll(pool, a);
  ReleaseAll(pool, b);
  auto touched = Chain({1, 2});
  ASSERT_TRUE(Compute(pool, touched, log));
  ReleaseAll(pool, touched);
  log.clear();
  auto c = Chain({21, 22, 23});
  ASSERT_TRUE(Compute(pool, c, log));
  EXPECT_EQ(Hashes(log[0]), (std::vector<std::uint64_t>{12, 11, 2}));
}

TEST(CopyPool, AFailedUseChangesNothing) {
  CopyPool pool({.blocks_total = 3});
  Log log;
  auto a = Chain({1});
  ASSERT_TRUE(Compute(pool, a, log));
  ReleaseAll(pool, a);
  auto held = Chain({5});
  ASSERT_TRUE(Compute(pool, held, log));
  log.clear();
  auto b = Chain({1, 2, 3});
  EXPECT_FALSE(pool.Use(b, 0, 3, 1, log)) << "the reused block is no room for a new one";
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(b[0].slot, kNoIndex);
  EXPECT_EQ(pool.cached(), 1U);
  EXPECT_EQ(pool.CheckConsistency(), "");
}

class CopyPoolProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(CopyPoolProperty, CountsAndListsStayTrue) {
  std::mt19937 random(GetParam());
  CopyPool pool({.blocks_total = 12});
  Log log;
  std::vector<std::vector<LogicalBlock>> held;
  for (int step = 0; step < 400; ++step) {
    if (held.size() > 3 || (random() % 2 == 0 && !held.empty())) {
      const std::size_t which = random() % held.size();
      ReleaseAll(pool, held[which]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::uint64_t first = 1 + 10 * (random() % 4);
      auto blocks = Chain({first, first + 1, first + 2});
      blocks.resize(1 + random() % 3);
      const bool computed = random() % 4 == 0 ? pool.Use(blocks, 0, blocks.size(), 0, log)
                                              : Compute(pool, blocks, log);
      if (computed) {
        held.push_back(std::move(blocks));
      }
    }
    ASSERT_EQ(pool.CheckConsistency(), "") << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CopyPoolProperty, ::testing::Range(0U, 50U));

}  // namespace
}  // namespace understudy::mocker
