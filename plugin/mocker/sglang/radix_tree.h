// The tree of cached pages.
#pragma once

#include "plugin/mocker/kv_cache/eviction_order.h"
#include "plugin/mocker/kv_cache/index_table.h"
#include "plugin/mocker/sglang/page.h"
#include "plugin/mocker/sglang/page_copies.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace understudy::mocker {

/// The root holds no page and is not an entry of the table.
inline constexpr std::uint32_t kRootNode = kNoIndex;

/// A radix tree over page hashes. A node is a run of pages; a page's chained hash stands for all
/// tokens up to its end, so whole runs are compared by hash. Locks protect a node and everything
/// above it; unlocked leaves may be evicted, the one used longest ago first. Times of use are
/// numbers of a counter: every walk gets a new one.
///
/// Release 1.3 (not `grows_leaves`): outputs hang one node a page below each other. A walk that
/// starts below the root marks only what it passes; the nodes above learn of it when the marked
/// node goes, which is before their own time of use can matter. Release 1.6 (`grows_leaves`): a
/// leaf that only its user holds grows in place, so the way up is short, and a walk marks all of
/// it. Pure, not thread safe. Source: radix_cache.rs of dynamo-mocker 1.3.0 and aisimulate-core
/// 0.13.0; golden vectors pass_sglang_*.json.
class RadixTree {
 public:
  /// `copies` outlives the tree, which owns the copies that are in it until RemoveOldest.
  RadixTree(PageCopies& copies, bool grows_leaves) : copies_(copies), grows_leaves_(grows_leaves) {}

  struct Match {
    std::uint32_t node = kRootNode;
    std::size_t pages = 0;
  };
  /// The longest prefix of `pages` that is there, as a node that ends with it (one that goes on is
  /// split), locked.
  [[nodiscard]] Match MatchAndLock(std::span<const Page> pages);

  /// Length of that prefix in pages; changes nothing.
  [[nodiscard]] std::size_t Peek(std::span<const Page> pages) const;

  /// Makes all of `pages` part of the tree, of which `node` (locked by the caller) covers the first
  /// `depth`. Copies of pages that were missing go over to the tree; where the tree has its own,
  /// the caller keeps his. Returns the node that ends with the last page; the caller's lock moves
  /// there.
  [[nodiscard]] std::uint32_t ExtendAndLock(std::uint32_t node,
                                            std::span<Page> pages,
                                            std::size_t depth);

  void Unlock(std::uint32_t node);

  struct Run {
    std::uint32_t first_copy = kNoIndex;  ///< a list through PageCopies::next
    std::uint32_t pages = 0;
  };
  /// Takes the unlocked leaf out that was used longest ago, or the last `most` pages of it; 0
  /// pages: there is none. Their copies are the caller's.
  [[nodiscard]] Run RemoveOldest(std::uint64_t most);

  [[nodiscard]] std::uint64_t pages() const { return pages_; }
  /// Of these, in unlocked nodes.
  [[nodiscard]] std::uint64_t evictable_pages() const { return evictable_pages_; }

  /// Empty if all is consistent and the locks are those of `holders` (a node each). For tests.
  [[nodiscard]] std::string CheckConsistency(std::span<const std::uint32_t> holders) const;

 private:
  struct Node {
    std::uint64_t used = 0;            ///< time of the last use
    std::uint32_t parent = kRootNode;  ///< of an unused entry: the next one
    std::uint32_t first = kNoIndex;    ///< copy of the first page
    std::uint32_t last = kNoIndex;
    std::uint32_t pages = 0;  ///< 0 = an unused entry
    std::uint32_t children = 0;
    std::uint32_t locks = 0;
    /// The only one it has had so far; kNoIndex: none, or they are in the table. Outputs grow the
    /// tree in long chains, which the table need not know.
    std::uint32_t only_child = kNoIndex;
  };

  static std::uint64_t Key(std::uint32_t parent, BlockHash hash) {
    return Value(hash) + (static_cast<std::uint64_t>(parent) + 1) * 0xD6E8FEB86659FD93ULL;
  }
  [[nodiscard]] std::uint32_t Child(std::uint32_t parent, BlockHash first) const;
  [[nodiscard]] std::size_t Common(std::uint32_t node, std::span<const Page> pages) const;
  [[nodiscard]] bool IsVictim(const EvictionOrder::Entry& entry) const;
  [[nodiscard]] BlockHash FirstHash(const Node& node) const { return copies_.hash(node.first); }
  [[nodiscard]] std::string CheckNode(std::uint32_t index) const;
  [[nodiscard]] std::string CheckVictims() const;
  std::uint32_t NewNode();
  void Attach(std::uint32_t parent, std::uint32_t child);
  void Detach(std::uint32_t parent, std::uint32_t child);
  void Replace(std::uint32_t parent, std::uint32_t child, std::uint32_t by);
  std::uint32_t Split(std::uint32_t node, std::size_t pages);
  std::uint32_t AddLeaf(std::uint32_t parent, std::span<Page> pages);
  [[nodiscard]] bool MayGrow(std::uint32_t node, std::uint32_t own) const;
  void GrowLeaf(std::uint32_t node, std::span<Page> pages);
  void MarkUsed(std::uint32_t node);
  Run CutLeaf(std::uint32_t node, std::uint32_t pages);
  /// Locks `node` and what is above it, up to but not including `end`.
  void LockUpTo(std::uint32_t node, std::uint32_t end);
  void OfferVictim(std::uint32_t node);

  PageCopies& copies_;
  const bool grows_leaves_;
  std::vector<Node> nodes_;
  std::uint32_t unused_ = kNoIndex;
  IndexTable children_;  ///< by parent and first page, if they are not an only child
  EvictionOrder order_;
  std::uint64_t pages_ = 0;
  std::uint64_t evictable_pages_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace understudy::mocker
