// The KV cache of one SGLang-style rank: a pool of tokens and a tree of the pages that can be
// reused.
#pragma once

#include "plugin/mocker/sglang/page.h"
#include "plugin/mocker/sglang/page_copies.h"
#include "plugin/mocker/sglang/radix_tree.h"
#include "understudy/base/ids.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace understudy::mocker {

/// A token of the pool is free, or held by a request (its own pages, its last incomplete page, what
/// is set aside for it), or part of the tree. Which one of the free tokens somebody gets makes no
/// difference, so they are only counted. Whole pages go into the tree and out of it; release 1.6
/// (`paged`) takes and returns whole pages everywhere, evicts no more of them than are needed, and
/// frees a page at once that the tree has already. Pure, not thread safe; an unused cache owns
/// no memory, it grows with the number of pages. Events are appended to the log that is passed in.
/// Source: dynamo-mocker 1.3.0 radix_cache.rs, sglang_backend.rs (engine.md 4.1, 4.6); golden
/// vectors pass_sglang_*.json.
class RadixCache {
 public:
  struct Options {
    std::uint64_t pages_total = 0;
    std::uint32_t page_size = 1;  ///< tokens
    bool events = true;
    bool paged = false;
    bool matches = true;  ///< false: no prefix caching, nothing goes into the tree
    RankIndex rank{};
  };
  using EventLog = std::vector<engine::KvEvent>;
  using Match = RadixTree::Match;

  explicit RadixCache(const Options& options);
  RadixCache(const RadixCache&) = delete;
  RadixCache& operator=(const RadixCache&) = delete;

  [[nodiscard]] std::uint64_t total_tokens() const { return total_tokens_; }
  [[nodiscard]] std::uint64_t free_tokens() const { return free_tokens_; }
  [[nodiscard]] std::uint64_t evictable_tokens() const {
    return tree_.evictable_pages() * options_.page_size;
  }
  /// What requests could get: free, or free after evictions.
  [[nodiscard]] std::uint64_t available_tokens() const { return free_tokens_ + evictable_tokens(); }
  [[nodiscard]] std::uint64_t event_count() const { return next_event_id_; }

  /// Evicts until `tokens` are free or nothing is left to evict. Whole leaves of the tree, so it
  /// may be more; `paged`: not a page more.
  void MakeRoom(std::uint64_t tokens, EventLog& log);
  /// Evicts all that may be evicted; the number of pages. Event: cleared when nobody has a page any
  /// more, else removed.
  std::uint64_t ClearCached(EventLog& log);
  /// `tokens` are free.
  void Take(std::uint64_t tokens);
  void Return(std::uint64_t tokens) { free_tokens_ += tokens; }

  /// As in RadixTree.
  [[nodiscard]] Match MatchAndLock(std::span<const Page> pages) {
    return options_.matches ? tree_.MatchAndLock(pages) : Match{};
  }
  [[nodiscard]] std::size_t Peek(std::span<const Page> pages) const { return tree_.Peek(pages); }
  [[nodiscard]] std::uint32_t ExtendAndLock(std::uint32_t node,
                                            std::span<Page> pages,
                                            std::size_t depth,
                                            EventLog& log);
  [[nodiscard]] bool matches() const { return options_.matches; }
  void Unlock(std::uint32_t node) { tree_.Unlock(node); }

  /// `pages[from, end)` have been computed, in tokens that the caller took: gives each a copy.
  /// Event: stored, from the first page on whose name is new; with the pages' tokens if those of
  /// the sequence from its start on are given.
  void Register(std::span<Page> pages,
                std::size_t from,
                EventLog& log,
                std::span<const std::uint32_t> tokens = {});

  /// Frees all copies that the caller has of `pages`, with their tokens. Event: removed, the names
  /// that are gone now.
  void Drop(std::span<Page> pages, EventLog& log);

  /// Tokens that are neither free nor in the tree.
  [[nodiscard]] std::uint64_t tokens_outside_tree() const;
  /// Copies that are not in the tree.
  [[nodiscard]] std::uint64_t copies_outside_tree() const { return copies_.size() - tree_.pages(); }

  /// Names of all pages that exist, sorted; none without events. For tests.
  [[nodiscard]] std::vector<BlockHash> KnownBlocks() const { return copies_.Names(); }

  /// Walks everything; empty if all is consistent and the locks are those of `holders` (a node
  /// each), else what is wrong. For tests.
  [[nodiscard]] std::string CheckConsistency(std::span<const std::uint32_t> holders) const;

 private:
  void EvictUntil(std::uint64_t tokens);
  void LogRemoved(EventLog& log);
  [[nodiscard]] engine::KvEvent NewEvent(engine::KvEvent::Kind kind);

  const Options options_;
  const std::uint64_t total_tokens_;
  std::uint64_t free_tokens_;
  PageCopies copies_;
  RadixTree tree_;
  std::vector<BlockHash> removed_;  ///< of the running call
  std::uint64_t next_event_id_ = 0;
};

}  // namespace understudy::mocker
