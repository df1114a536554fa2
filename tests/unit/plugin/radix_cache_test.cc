#include "plugin/mocker/sglang/radix_cache.h"

#include "plugin/mocker/sglang/page_sequence.h"
#include "tests/unit/plugin/random_load.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Kind = engine::KvEvent::Kind;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kPage = 4;

std::vector<Page> PagesOf(const Tokens& tokens) {
  PageSequence sequence;
  sequence.Assign(tokens, kPage);
  sequence.MakePages(0);
  return sequence.pages();
}

/// `pages` pages whose tokens count up from `first`.
Tokens Count(std::uint32_t first, std::size_t pages) {
  Tokens tokens(pages * kPage);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class RadixCacheTest : public ::testing::Test {
 protected:
  /// Computes and caches `tokens`, as a request would that ends right away.
  void Cache(const Tokens& tokens) {
    std::vector<Page> pages = PagesOf(tokens);
    cache_.Unlock(Hold(pages));
    cache_.Drop(pages, log_);
  }

  /// The same, but the request goes on: returns its node.
  std::uint32_t Hold(std::vector<Page>& pages) {
    const RadixCache::Match match = cache_.MatchAndLock(pages);
    cache_.Take((pages.size() - match.pages) * kPage);
    cache_.Register(pages, match.pages, log_);
    return cache_.ExtendAndLock(match.node, pages, match.pages, log_);
  }

  void ExpectConsistent(const std::vector<std::uint32_t>& holders = {}) {
    EXPECT_EQ(cache_.CheckConsistency(holders), "");
  }

  std::size_t PagesCached(const Tokens& tokens) { return cache_.Peek(PagesOf(tokens)); }

  RadixCache cache_{{.pages_total = 16, .page_size = kPage}};
  RadixCache::EventLog log_;
};

TEST_F(RadixCacheTest, FindsWholePagesOnly) {
  Cache(Count(0, 3));

  Tokens prompt = Count(0, 2);
  prompt.push_back(8);  // the beginning of the third page
  EXPECT_EQ(PagesCached(prompt), 2U);
  prompt = Count(0, 3);
  prompt[5] = 99;
  EXPECT_EQ(PagesCached(prompt), 1U);
  EXPECT_EQ(PagesCached(Count(1, 3)), 0U);
}

TEST_F(RadixCacheTest, SplitsANodeWhenAPromptDivergesInside) {
  Cache(Count(0, 3));
  Tokens other = Count(0, 3);
  other[kPage] = 99;

  const RadixCache::Match match = cache_.MatchAndLock(PagesOf(other));

  EXPECT_EQ(match.pages, 1U);
  EXPECT_EQ(cache_.evictable_tokens(), 2 * kPage) << "only the common page is locked";
  EXPECT_EQ(PagesCached(Count(0, 3)), 3U);
  ExpectConsistent({match.node});
  cache_.Unlock(match.node);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, SplittingALockedNodeLeavesBothPartsLocked) {
  std::vector<Page> pages = PagesOf(Count(0, 3));
  const std::uint32_t holder = Hold(pages);

  const RadixCache::Match match = cache_.MatchAndLock(PagesOf(Count(0, 1)));

  EXPECT_EQ(cache_.evictable_tokens(), 0U);
  ExpectConsistent({holder, match.node});
  cache_.Unlock(match.node);
  cache_.Unlock(holder);
  EXPECT_EQ(cache_.evictable_tokens(), 3 * kPage);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, EvictsWholeLeavesTheOneUsedLongestAgoFirst) {
  Cache(Count(0, 3));
  Cache(Count(100, 2));
  cache_.Unlock(cache_.MatchAndLock(PagesOf(Count(0, 3))).node);  // used once more

  cache_.MakeRoom(cache_.free_tokens() + 1, log_);

  EXPECT_EQ(PagesCached(Count(100, 2)), 0U);
  EXPECT_EQ(PagesCached(Count(0, 3)), 3U);
  EXPECT_EQ(cache_.free_tokens(), (16 - 3) * kPage);
  ASSERT_EQ(log_.back().kind, Kind::kRemoved);
  EXPECT_EQ(log_.back().blocks.size(), 2U);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, EvictsNothingThatIsLocked) {
  std::vector<Page> pages = PagesOf(Count(0, 3));
  const std::uint32_t holder = Hold(pages);
  Cache(Count(100, 2));

  cache_.MakeRoom(16 * kPage, log_);

  EXPECT_EQ(cache_.free_tokens(), (16 - 3) * kPage);
  EXPECT_EQ(cache_.evictable_tokens(), 0U);
  ExpectConsistent({holder});
}

TEST_F(RadixCacheTest, ANodeCanBeEvictedWhenItsChildrenAreGone) {
  Tokens first = Count(0, 2);
  Tokens second = Count(0, 2);
  second.back() = 99;
  Cache(first);
  Cache(second);  // below the common page now: two leaves

  cache_.MakeRoom(16 * kPage, log_);

  EXPECT_EQ(cache_.free_tokens(), 16 * kPage);
  ASSERT_EQ(log_.back().kind, Kind::kRemoved);
  ASSERT_EQ(log_.back().blocks.size(), 3U) << "one event a call";
  EXPECT_EQ(log_.back().blocks[0].block_hash, PagesOf(first)[1].hash);
  EXPECT_EQ(log_.back().blocks[1].block_hash, PagesOf(second)[1].hash);
  EXPECT_EQ(log_.back().blocks[2].block_hash, PagesOf(first)[0].hash);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, ReportsPagesWithTheirParentFromTheFirstNewOneOn) {
  Cache(Count(0, 2));
  log_.clear();

  Cache(Count(0, 4));

  ASSERT_EQ(log_.size(), 1U);
  const std::vector<Page> pages = PagesOf(Count(0, 4));
  EXPECT_EQ(log_[0].kind, Kind::kStored);
  EXPECT_EQ(log_[0].event_id, 1U);
  EXPECT_EQ(log_[0].parent, pages[1].hash);
  ASSERT_EQ(log_[0].blocks.size(), 2U);
  EXPECT_EQ(log_[0].blocks[0].block_hash, pages[2].hash);
  EXPECT_EQ(log_[0].blocks[0].tokens_hash, pages[2].tokens_hash);
  EXPECT_EQ(log_[0].blocks[1].block_hash, pages[3].hash);
}

TEST_F(RadixCacheTest, CopiesOfOnePageAreReportedOnce) {
  std::vector<Page> first = PagesOf(Count(0, 2));
  std::vector<Page> second = PagesOf(Count(0, 2));
  cache_.Take(4 * kPage);
  cache_.Register(first, 0, log_);
  cache_.Register(second, 0, log_);
  EXPECT_EQ(log_.size(), 1U);

  const std::uint32_t one = cache_.ExtendAndLock(kRootNode, first, 0, log_);
  const std::uint32_t two = cache_.ExtendAndLock(kRootNode, second, 0, log_);
  EXPECT_EQ(one, two);
  EXPECT_EQ(cache_.copies_outside_tree(), 2U) << "the second request keeps its own";
  cache_.Drop(first, log_);
  cache_.Drop(second, log_);

  EXPECT_EQ(log_.size(), 1U) << "the tree still has the pages";
  EXPECT_EQ(cache_.free_tokens(), (16 - 2) * kPage);
  cache_.Unlock(one);
  cache_.Unlock(two);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, LastCopyIsReportedWhenItGoes) {
  std::vector<Page> pages = PagesOf(Count(0, 2));
  cache_.Take(2 * kPage);
  cache_.Register(pages, 0, log_);

  cache_.Drop(pages, log_);

  ASSERT_EQ(log_.size(), 2U);
  EXPECT_EQ(log_[1].kind, Kind::kRemoved);
  EXPECT_EQ(log_[1].blocks[0].block_hash, pages[0].hash);
  EXPECT_EQ(log_[1].blocks[1].block_hash, pages[1].hash);
  EXPECT_EQ(cache_.free_tokens(), 16 * kPage);
  ExpectConsistent();
}

TEST_F(RadixCacheTest, ExtendingBelowANodeLeavesItsLockWithTheNewEnd) {
  std::vector<Page> pages = PagesOf(Count(0, 3));
  cache_.Take(3 * kPage);
  cache_.Register(pages, 0, log_);
  std::uint32_t node = cache_.ExtendAndLock(kRootNode, std::span(pages).first(1), 0, log_);

  node = cache_.ExtendAndLock(node, std::span(pages).first(2), 1, log_);
  node = cache_.ExtendAndLock(node, pages, 2, log_);

  ExpectConsistent({node});
  EXPECT_EQ(cache_.copies_outside_tree(), 0U);
  cache_.Unlock(node);
  cache_.MakeRoom(cache_.free_tokens() + 1, log_);
  EXPECT_EQ(PagesCached(Count(0, 3)), 2U) << "each was a leaf of its own";
}

TEST_F(RadixCacheTest, WithoutEventsNothingIsReported) {
  RadixCache cache({.pages_total = 8, .page_size = kPage, .events = false});
  std::vector<Page> pages = PagesOf(Count(0, 3));
  cache.Take(3 * kPage);
  cache.Register(pages, 0, log_);
  cache.Unlock(cache.ExtendAndLock(kRootNode, pages, 0, log_));
  cache.MakeRoom(8 * kPage, log_);

  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(cache.event_count(), 0U);
  EXPECT_EQ(cache.free_tokens(), 8 * kPage);
}

/// The same tree as simple as can be: a node per split or insertion, every walk marks all it passes
/// from the root on, eviction looks at everything.
class SimpleTree {
 public:
  struct Node {
    Node* parent = nullptr;
    std::vector<BlockHash> run;
    std::uint64_t used = 0;
    int locks = 0;
    std::map<BlockHash, Node*> children;
  };

  /// What an insertion of `key` and a look-up after it leave behind. Returns the end node.
  Node* Insert(const std::vector<BlockHash>& key) {
    Walk walk = Follow(key);
    if (walk.depth < key.size()) {
      Node& leaf =
          Add(walk.node, {key.begin() + static_cast<std::ptrdiff_t>(walk.depth), key.end()});
      leaf.used = ++clock_;
    }
    return Follow(key).node;
  }

  Node* Match(const std::vector<BlockHash>& key) { return Follow(key).node; }

  void Lock(Node* node, int by) {
    for (; node != &root_; node = node->parent) {
      node->locks += by;
    }
  }

  /// Pages in the order in which they go, until at least `pages` are gone.
  std::vector<BlockHash> Evict(std::size_t pages) {
    std::vector<BlockHash> gone;
    while (gone.size() < pages) {
      Node* victim = nullptr;
      for (Node& node : nodes_) {
        if (node.children.empty() && node.locks == 0 &&
            (victim == nullptr || node.used < victim->used)) {
          victim = &node;
        }
      }
      if (victim == nullptr) {
        break;
      }
      gone.insert(gone.end(), victim->run.begin(), victim->run.end());
      victim->parent->children.erase(victim->run.front());
      nodes_.remove_if([&](const Node& node) { return &node == victim; });
    }
    return gone;
  }

 private:
  struct Walk {
    Node* node;
    std::size_t depth;
  };

  Walk Follow(const std::vector<BlockHash>& key) {
    ++clock_;
    Walk walk{&root_, 0};
    while (walk.depth < key.size()) {
      const auto found = walk.node->children.find(key[walk.depth]);
      if (found == walk.node->children.end()) {
        break;
      }
      Node* child = found->second;
      std::size_t common = 0;
      while (common < child->run.size() && walk.depth + common < key.size() &&
             child->run[common] == key[walk.depth + common]) {
        ++common;
      }
      walk.depth += common;
      if (common < child->run.size()) {
        walk.node = Split(child, common);
        break;
      }
      child->used = clock_;
      walk.node = child;
    }
    return walk;
  }

  Node& Add(Node* parent, std::vector<BlockHash> run) {
    Node& node = nodes_.emplace_back();
    node.parent = parent;
    node.run = std::move(run);
    parent->children[node.run.front()] = &node;
    return node;
  }

  Node* Split(Node* node, std::size_t at) {
    const auto middle = node->run.begin() + static_cast<std::ptrdiff_t>(at);
    Node& upper = Add(node->parent, {node->run.begin(), middle});
    upper.used = node->used;
    upper.locks = node->locks;
    node->run.erase(node->run.begin(), middle);
    node->parent = &upper;
    upper.children[node->run.front()] = node;
    return &upper;
  }

  Node root_;
  std::list<Node> nodes_;
  std::uint64_t clock_ = 0;
};

class RadixCacheProperty : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Few different pages: prefixes are shared, and diverge anywhere.
  std::vector<Page> RandomPages() {
    Tokens tokens;
    for (std::uint32_t pages = 1 + random_.Below(6); pages > 0; --pages) {
      tokens.insert(tokens.end(), kPage, random_.Below(3));
    }
    return PagesOf(tokens);
  }

  static std::vector<BlockHash> HashesOf(std::span<const Page> pages) {
    std::vector<BlockHash> hashes;
    for (const Page& page : pages) {
      hashes.push_back(page.hash);
    }
    return hashes;
  }

  struct Holder {
    std::vector<Page> pages;
    std::uint32_t node = kRootNode;
    std::size_t depth = 0;  ///< pages in the tree
    SimpleTree::Node* model = nullptr;
  };

  void Begin() {
    Holder holder{RandomPages(), kRootNode, 0, nullptr};
    if (holder.pages.size() * kPage > cache_.free_tokens()) {
      return;
    }
    const RadixCache::Match match = cache_.MatchAndLock(holder.pages);
    cache_.Take((holder.pages.size() - match.pages) * kPage);
    cache_.Register(holder.pages, match.pages, log_);
    holder.node = match.node;
    holder.depth = match.pages;
    holder.model = model_.Match(HashesOf(holder.pages));
    model_.Lock(holder.model, 1);
    holders_.push_back(std::move(holder));
  }

  void Extend(Holder& holder) {
    const std::size_t to =
        holder.depth +
        random_.Below(static_cast<std::uint32_t>(holder.pages.size() - holder.depth + 1));
    const auto pages = std::span(holder.pages).first(to);
    holder.node = cache_.ExtendAndLock(holder.node, pages, holder.depth, log_);
    holder.depth = to;
    SimpleTree::Node* model = model_.Insert(HashesOf(pages));
    model_.Lock(model, 1);
    model_.Lock(holder.model, -1);
    holder.model = model;
  }

  void End(std::size_t index) {
    Holder& holder = holders_[index];
    cache_.Drop(holder.pages, log_);
    cache_.Unlock(holder.node);
    model_.Lock(holder.model, -1);
    holders_.erase(holders_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void Evict() {
    const std::uint64_t pages = 1 + random_.Below(4);
    log_.clear();
    cache_.MakeRoom(cache_.free_tokens() + pages * kPage, log_);
    std::vector<BlockHash> gone;
    for (const engine::KvEvent& event : log_) {
      for (const engine::KvBlock& block : event.blocks) {
        gone.push_back(block.block_hash);
      }
    }
    std::vector<BlockHash> expected = model_.Evict(pages);
    std::erase_if(expected, [this](BlockHash hash) { return OwnedBySomebody(hash); });
    EXPECT_EQ(gone, expected);
  }

  /// Then its name does not go with the page of the tree.
  bool OwnedBySomebody(BlockHash hash) const {
    return std::any_of(holders_.begin(), holders_.end(), [&](const Holder& holder) {
      return std::any_of(holder.pages.begin(), holder.pages.end(), [&](const Page& page) {
        return page.hash == hash && page.copy != kNoIndex;
      });
    });
  }

  RandomSource random_{GetParam()};
  RadixCache cache_{{.pages_total = 40, .page_size = kPage}};
  RadixCache::EventLog log_;
  SimpleTree model_;
  std::vector<Holder> holders_;
};

TEST_P(RadixCacheProperty, EvictsLikeATreeThatMarksWholePaths) {
  for (int step = 0; step < 300 && !HasFailure(); ++step) {
    const std::uint32_t kind = random_.Below(4);
    if (kind == 0) {
      Begin();
    } else if (kind == 1) {
      Evict();
    } else if (!holders_.empty()) {
      const std::size_t index = random_.Below(static_cast<std::uint32_t>(holders_.size()));
      if (kind == 2) {
        Extend(holders_[index]);
      } else {
        End(index);
      }
    }
    std::vector<std::uint32_t> nodes;
    for (const Holder& holder : holders_) {
      nodes.push_back(holder.node);
    }
    ASSERT_EQ(cache_.CheckConsistency(nodes), "") << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RadixCacheProperty, ::testing::Range(0U, 200U));

}  // namespace
}  // namespace understudy::mocker
