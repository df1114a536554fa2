#include "worker/kv_relay/block_tree.h"

#include "tests/unit/worker/kv_relay/events.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using Hashes = std::vector<std::uint64_t>;

struct Row {
  std::optional<std::uint64_t> parent;
  Hashes blocks;
  friend bool operator==(const Row&, const Row&) = default;
  friend auto operator<=>(const Row& a, const Row& b) { return a.blocks <=> b.blocks; }
};

void Store(BlockTree& tree,
           std::optional<std::uint64_t> parent,
           std::initializer_list<std::uint64_t> hashes) {
  tree.Store(parent ? std::optional(BlockHash{*parent}) : std::nullopt, Blocks(hashes));
}

Row RowOf(const BlockTree::Chain& chain) {
  Row row;
  if (chain.parent) {
    row.parent = Value(*chain.parent);
  }
  for (const auto& block : chain.blocks) {
    row.blocks.push_back(Value(block.block_hash));
  }
  return row;
}

std::vector<Row> Walk(BlockTree& tree, std::size_t blocks_max = 1000) {
  std::vector<Row> rows;
  BlockTree::Chain chain;
  tree.BeginWalk();
  while (tree.NextChain(blocks_max, chain)) {
    rows.push_back(RowOf(chain));
  }
  tree.EndWalk();
  return rows;
}

std::vector<Row> Sorted(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(BlockTree, RemovesABlockWithItsLastReference) {
  BlockTree tree;
  Store(tree, {}, {1});
  Store(tree, {}, {1});
  EXPECT_FALSE(tree.Remove(BlockHash{1}));
  EXPECT_TRUE(tree.Holds(BlockHash{1}));
  EXPECT_TRUE(tree.Remove(BlockHash{1}));
  EXPECT_FALSE(tree.Holds(BlockHash{1}));
  EXPECT_EQ(tree.CheckConsistency(), "");
}

TEST(BlockTree, LetsRemovalsOfUnknownBlocksPass) {
  BlockTree tree;
  EXPECT_TRUE(tree.Remove(BlockHash{7}));
  EXPECT_EQ(tree.size(), 0U);
}

TEST(BlockTree, CutsRowsWhereTheTreeBranches) {
  BlockTree tree;
  Store(tree, {}, {11, 12, 13});
  Store(tree, 11, {21});
  Store(tree, {}, {31});
  EXPECT_EQ(Sorted(Walk(tree)),
            (std::vector<Row>{{{}, {11}}, {11, {12, 13}}, {11, {21}}, {{}, {31}}}));
}

TEST(BlockTree, CutsRowsAtTheLimit) {
  BlockTree tree;
  Store(tree, {}, {1, 2, 3, 4, 5});
  EXPECT_EQ(Walk(tree, 2), (std::vector<Row>{{{}, {1, 2}}, {2, {3, 4}}, {4, {5}}}));
}

TEST(BlockTree, ShowsParentsBeforeChildren) {
  BlockTree tree;
  Store(tree, {}, {1});
  for (std::uint64_t i = 2; i < 60; ++i) {
    Store(tree, i / 2, {i});
  }
  std::set<std::uint64_t> seen;
  for (const Row& row : Walk(tree)) {
    EXPECT_TRUE(!row.parent || seen.count(*row.parent) == 1);
    seen.insert(row.blocks.begin(), row.blocks.end());
  }
  EXPECT_EQ(seen.size(), 59U);
}

TEST(BlockTree, HidesBlocksWhoseParentIsGoneUntilItComesBack) {
  BlockTree tree;
  Store(tree, {}, {1, 2, 3});
  EXPECT_TRUE(tree.Remove(BlockHash{2}));
  EXPECT_EQ(Walk(tree), (std::vector<Row>{{{}, {1}}}));
  EXPECT_TRUE(tree.Holds(BlockHash{3}));
  Store(tree, 1, {2});
  EXPECT_EQ(Walk(tree), (std::vector<Row>{{{}, {1, 2, 3}}}));
  EXPECT_EQ(tree.CheckConsistency(), "");
}

TEST(BlockTree, AttachesABlockThatCameBeforeItsParent) {
  BlockTree tree;
  Store(tree, 5, {6});
  EXPECT_EQ(tree.orphans(), 1U);
  EXPECT_TRUE(Walk(tree).empty());
  Store(tree, {}, {4, 5});
  EXPECT_EQ(Walk(tree), (std::vector<Row>{{{}, {4, 5, 6}}}));
  EXPECT_EQ(tree.CheckConsistency(), "");
}

TEST(BlockTree, SurvivesBlocksThatNameEachOtherAsParent) {
  BlockTree tree;
  Store(tree, 2, {1});
  Store(tree, 1, {2});
  Store(tree, 3, {3});
  EXPECT_TRUE(Walk(tree).empty());
  tree.Remove(BlockHash{1});
  tree.Remove(BlockHash{2});
  tree.Remove(BlockHash{3});
  EXPECT_EQ(tree.size(), 0U);
}

TEST(BlockTree, SaysThatAClearSpoiledTheWalk) {
  BlockTree tree;
  Store(tree, {}, {1, 2});
  tree.BeginWalk();
  tree.Clear();
  BlockTree::Chain chain;
  EXPECT_FALSE(tree.NextChain(10, chain));
  EXPECT_TRUE(tree.walk_broken());
  tree.EndWalk();
  EXPECT_EQ(tree.CheckConsistency(), "");
}

/// The same facts, kept in the simplest way.
class Model {
 public:
  void Store(std::optional<std::uint64_t> parent, const Hashes& blocks) {
    for (const auto hash : blocks) {
      ++refs_[hash];
      parent_[hash] = parent;
      parent = hash;
    }
  }
  void Remove(std::uint64_t hash) {
    if (const auto it = refs_.find(hash); it != refs_.end() && --it->second == 0) {
      refs_.erase(it);
    }
  }
  [[nodiscard]] std::set<std::uint64_t> Reachable() const {
    std::set<std::uint64_t> blocks;
    for (const auto& [hash, refs] : refs_) {
      auto at = std::optional(hash);
      while (at && refs_.count(*at) == 1) {
        at = parent_.at(*at);
      }
      if (!at) {
        blocks.insert(hash);
      }
    }
    return blocks;
  }
  [[nodiscard]] std::size_t size() const { return refs_.size(); }

 private:
  std::map<std::uint64_t, int> refs_;
  std::map<std::uint64_t, std::optional<std::uint64_t>> parent_;
};

class BlockTreeLoad : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Stores or removes something; the parent of block b is always b / 3.
  void Change() {
    const auto hash = random_() % 400 + 1;
    if (random_() % 5 < 3) {
      Hashes row = {hash};
      while (row.size() < 4 && random_() % 2 == 0) {
        row.push_back(row.back() * 3 + random_() % 3);
      }
      const auto parent = hash / 3 == 0 ? std::nullopt : std::optional<std::uint64_t>(hash / 3);
      std::vector<transport::RouterBlock> blocks;
      for (const auto one : row) {
        blocks.push_back({BlockHash{one}, TokensHash{1000 + one}});
      }
      tree_.Store(parent ? std::optional(BlockHash{*parent}) : std::nullopt, blocks);
      model_.Store(parent, row);
    } else {
      tree_.Remove(BlockHash{hash});
      model_.Remove(hash);
    }
  }

  std::mt19937 random_{GetParam()};
  BlockTree tree_;
  Model model_;
};

// The parameter is the seed.
TEST_P(BlockTreeLoad, HoldsWhatASimpleModelHolds) {
  for (int round = 0; round < 2000; ++round) {
    Change();
    if (round % 50 == 0) {
      ASSERT_EQ(tree_.CheckConsistency(), "") << round;
      ASSERT_EQ(tree_.size(), model_.size());
      std::set<std::uint64_t> shown;
      for (const Row& row : Walk(tree_, 3)) {
        shown.insert(row.blocks.begin(), row.blocks.end());
      }
      ASSERT_EQ(shown, model_.Reachable()) << round;
    }
  }
}

TEST_P(BlockTreeLoad, AWalkShowsTheTreeOfItsBeginning) {
  int whole = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 60; ++i) {
      Change();
    }
    const auto expected = model_.Reachable();
    std::set<std::uint64_t> shown;
    BlockTree::Chain chain;
    tree_.BeginWalk();
    while (tree_.NextChain(3, chain)) {
      for (const auto& block : chain.blocks) {
        EXPECT_TRUE(shown.insert(Value(block.block_hash)).second);
      }
      Change();
    }
    const bool broken = tree_.walk_broken();
    tree_.EndWalk();
    ASSERT_EQ(tree_.CheckConsistency(), "") << round;
    if (!broken) {
      ++whole;
      ASSERT_EQ(shown, expected) << round;
    }
  }
  EXPECT_GT(whole, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BlockTreeLoad, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace understudy::worker
