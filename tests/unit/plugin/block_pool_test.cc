#include "plugin/mocker/kv_cache/block_pool.h"

#include <limits>
#include <map>
#include <optional>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Log = BlockPool::EventLog;
using Kind = engine::KvEvent::Kind;

/// Full blocks named by `hashes`, each following the one before.
std::vector<LogicalBlock> Chain(std::initializer_list<std::uint64_t> hashes,
                                bool partial_end = false) {
  std::vector<LogicalBlock> blocks;
  for (const std::uint64_t hash : hashes) {
    blocks.push_back({BlockHash{hash}, TokensHash{hash + 1000}, kNoIndex, true});
  }
  if (partial_end) {
    blocks.emplace_back();
  }
  return blocks;
}

void ReleaseAll(BlockPool& pool, std::vector<LogicalBlock>& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    pool.Release(*block);
  }
}

std::vector<std::uint64_t> Hashes(const engine::KvEvent& event) {
  std::vector<std::uint64_t> hashes;
  for (const engine::KvBlock& block : event.blocks) {
    hashes.push_back(Value(block.block_hash));
  }
  return hashes;
}

TEST(BlockPool, CountsSharedBlocksOnce) {
  BlockPool pool({.blocks_total = 10});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1, 2, 3}, true);
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 4, 0, log));
  EXPECT_EQ(pool.active(), 4U);
  EXPECT_EQ(pool.free(), 6U);
  ReleaseAll(pool, a);
  EXPECT_EQ(pool.active(), 4U);
  ReleaseAll(pool, b);
  EXPECT_EQ(pool.active(), 0U);
  EXPECT_EQ(pool.cached(), 3U);
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(BlockPool, StoresOnlyWhatIsNewAfterItsParent) {
  BlockPool pool({.blocks_total = 10});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1, 2, 3, 4});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 4, 0, log));
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].parent, std::nullopt);
  EXPECT_EQ(Hashes(log[0]), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(log[1].event_id, 1U);
  EXPECT_EQ(log[1].parent, BlockHash{2});
  EXPECT_EQ(Hashes(log[1]), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(log[1].blocks[0].tokens_hash, TokensHash{1003});
}

TEST(BlockPool, AllocatesPieceByPieceBehindWhatIsHeld) {
  BlockPool pool({.blocks_total = 10});
  Log log;
  auto a = Chain({1, 2}, true);
  ASSERT_TRUE(pool.Use(a, 0, 1, 0, log));
  ASSERT_TRUE(pool.Use(a, 1, 2, 0, log));
  ASSERT_TRUE(pool.Use(a, 2, 3, 0, log));
  ASSERT_EQ(log.size(), 2U) << "a partial block has no event";
  EXPECT_EQ(log[1].parent, BlockHash{1});
  EXPECT_EQ(pool.active(), 3U);
}

TEST(BlockPool, EvictsTailsFirstAndOlderChainsBeforeNewer) {
  BlockPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({11, 12});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ReleaseAll(pool, a);
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  ReleaseAll(pool, b);
  log.clear();
  auto c = Chain({21, 22, 23, 24});
  ASSERT_TRUE(pool.Use(c, 0, 4, 0, log));
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].kind, Kind::kStored);
  EXPECT_EQ(log[1].kind, Kind::kRemoved);
  EXPECT_EQ(Hashes(log[1]), (std::vector<std::uint64_t>{2, 1, 12, 11}));
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(BlockPool, ASharedHeadOutlivesItsTailsAndKeepsItsOwnTick) {
  BlockPool pool({.blocks_total = 5});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1, 3});
  auto other = Chain({50});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(other, 0, 1, 0, log));
  ReleaseAll(pool, a);      // tick 1: block 2
  ReleaseAll(pool, b);      // ticks 2, 3: blocks 3, 1
  ReleaseAll(pool, other);  // tick 4: block 50
  log.clear();
  auto c = Chain({91, 92, 93, 94, 95});
  ASSERT_TRUE(pool.Use(c, 0, 5, 0, log));
  EXPECT_EQ(Hashes(log.back()), (std::vector<std::uint64_t>{2, 3, 1, 50}));
}

TEST(BlockPool, ReuseDiscardsTheOldTick) {
  BlockPool pool({.blocks_total = 2});
  Log log;
  auto a = Chain({1});
  auto b = Chain({2});
  ASSERT_TRUE(pool.Use(a, 0, 1, 0, log));
  ReleaseAll(pool, a);
  ASSERT_TRUE(pool.Use(b, 0, 1, 0, log));
  ReleaseAll(pool, b);
  ASSERT_TRUE(pool.Use(a, 0, 1, 0, log));
  ReleaseAll(pool, a);
  auto c = Chain({3});
  ASSERT_TRUE(pool.Use(c, 0, 1, 0, log));
  EXPECT_EQ(Hashes(log.back()), std::vector<std::uint64_t>{2});
}

TEST(BlockPool, AFailedUseChangesNothingButTheAgeOfWhatItWouldHaveReused) {
  BlockPool pool({.blocks_total = 3});
  Log log;
  auto a = Chain({1});
  auto b = Chain({2});
  ASSERT_TRUE(pool.Use(a, 0, 1, 0, log));
  ReleaseAll(pool, a);
  ASSERT_TRUE(pool.Use(b, 0, 1, 0, log));
  ReleaseAll(pool, b);
  log.clear();
  auto too_long = Chain({1, 101, 102, 103});
  EXPECT_FALSE(pool.Use(too_long, 0, 4, 0, log));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(pool.active(), 0U);
  EXPECT_EQ(too_long[0].slot, kNoIndex);
  EXPECT_EQ(pool.CheckConsistency(), "");
  auto c = Chain({21, 22});
  ASSERT_TRUE(pool.Use(c, 0, 2, 0, log));
  EXPECT_EQ(Hashes(log.back()), std::vector<std::uint64_t>{2}) << "block 1 is the younger one now";
}

TEST(BlockPool, PromotionToAKnownBlockSharesItWithoutAnEvent) {
  BlockPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1}, true);
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  log.clear();
  b[1].hash = BlockHash{2};
  b[1].full = true;
  pool.Publish(b, b.size() - 1, b.size(), log);
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(pool.active(), 2U);
  EXPECT_EQ(b[1].slot, a[1].slot);
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(BlockPool, PromotionOfANewBlockIsStoredAfterItsParent) {
  BlockPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1}, true);
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  log.clear();
  a[1].hash = BlockHash{2};
  a[1].full = true;
  pool.Publish(a, a.size() - 1, a.size(), log);
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log[0].parent, BlockHash{1});
  EXPECT_EQ(Hashes(log[0]), std::vector<std::uint64_t>{2});
}

TEST(BlockPool, EqualHashesBehindOtherParentsAreOtherBlocks) {
  BlockPool pool({.blocks_total = 4});
  Log log;
  auto a = Chain({1, 7});
  auto b = Chain({2, 7});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  EXPECT_EQ(pool.active(), 4U);
  EXPECT_NE(a[1].slot, b[1].slot);
  ReleaseAll(pool, a);
  ReleaseAll(pool, b);
  auto c = Chain({31, 32, 33, 34});
  ASSERT_TRUE(pool.Use(c, 0, 4, 0, log));
  EXPECT_EQ(pool.CheckConsistency(), "");
}

TEST(BlockPool, SharesNothingAndSaysNothingWithoutCaching) {
  BlockPool pool({.blocks_total = 4, .caching = false});
  Log log;
  auto a = Chain({1, 2});
  auto b = Chain({1, 2});
  ASSERT_TRUE(pool.Use(a, 0, 2, 0, log));
  ASSERT_TRUE(pool.Use(b, 0, 2, 0, log));
  EXPECT_EQ(pool.active(), 4U);
  ReleaseAll(pool, a);
  EXPECT_EQ(pool.free(), 2U);
  EXPECT_TRUE(log.empty());
}

/// The rule itself, slow: ticks in a map, victims by search for the smallest one without cached
/// descendants.
class SlowOrder {
 public:
  void Enter(std::uint64_t hash, std::optional<std::uint64_t> parent) {
    parents_[hash] = parent;
    ticks_[hash] = ++tick_;
  }
  void Leave(std::uint64_t hash) { ticks_.erase(hash); }
  std::uint64_t Evict() {
    std::uint64_t victim = 0;
    std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [hash, tick] : ticks_) {
      if (tick < smallest && !HasCachedDescendant(hash)) {
        smallest = tick;
        victim = hash;
      }
    }
    ticks_.erase(victim);
    return victim;
  }
  [[nodiscard]] bool Has(std::uint64_t hash) const { return ticks_.contains(hash); }

 private:
  bool HasCachedDescendant(std::uint64_t ancestor) const {
    for (const auto& [hash, tick] : ticks_) {
      for (auto at = parents_.at(hash); at.has_value();
           at = parents_.contains(*at) ? parents_.at(*at) : std::nullopt) {
        if (*at == ancestor) {
          return true;
        }
      }
    }
    return false;
  }
  std::map<std::uint64_t, std::uint64_t> ticks_;
  std::map<std::uint64_t, std::optional<std::uint64_t>> parents_;
  std::uint64_t tick_ = 0;
};

class EvictionAgainstTheRule : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(EvictionAgainstTheRule, ChoosesTheSameVictims) {
  std::uint64_t state = GetParam() * 2654435761U + 1;
  const auto random = [&state](std::uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33U) % below;
  };
  BlockPool pool({.blocks_total = 24});
  SlowOrder slow;
  for (int step = 0; step < 400; ++step) {
    // A path in a tree with few branches: many shared prefixes. Block names are unique along paths.
    std::vector<LogicalBlock> blocks;
    std::uint64_t name = 0;
    for (std::uint64_t depth = 1 + random(8); depth > 0; --depth) {
      name = name * 3 + 1 + random(3);
      blocks.push_back({BlockHash{name}, TokensHash{name}, kNoIndex, true});
    }
    std::size_t fresh = 0;
    for (const LogicalBlock& block : blocks) {
      fresh += slow.Has(Value(block.hash)) ? 0U : 1U;
      slow.Leave(Value(block.hash));
    }
    const std::uint64_t evictions = fresh > pool.free() ? fresh - pool.free() : 0;
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < evictions; ++i) {
      expected.push_back(slow.Evict());
    }
    Log log;
    ASSERT_TRUE(pool.Use(blocks, 0, blocks.size(), 0, log));
    ASSERT_EQ(evictions > 0 ? Hashes(log.back()) : std::vector<std::uint64_t>{}, expected)
        << "step " << step;
    for (std::size_t i = blocks.size(); i-- > 0;) {
      slow.Enter(Value(blocks[i].hash),
                 i == 0 ? std::nullopt : std::optional(Value(blocks[i - 1].hash)));
    }
    ReleaseAll(pool, blocks);
    ASSERT_EQ(pool.CheckConsistency(), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, EvictionAgainstTheRule, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace understudy::mocker
