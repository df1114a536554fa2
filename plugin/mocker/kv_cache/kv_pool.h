// The KV blocks of one rank: which are used, which are cached, which are free.
#pragma once

#include "plugin/mocker/kv_cache/index_table.h"
#include "understudy/base/clock.h"
#include "understudy/base/ids.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace understudy::mocker {

/// One block of a request. Full blocks have hashes and can be shared; the one at the end of a
/// sequence is partial until its last token is there. `slot` is the physical block that holds it,
/// kNoIndex while the request has none.
struct LogicalBlock {
  BlockHash hash{};
  TokensHash tokens_hash{};
  std::uint32_t slot = kNoIndex;
  bool full = false;
};

/// A fixed number of slots, each free, active (private to a request, or full and referenced by
/// some) or cached (full, without references, reusable and evictable). Which slot is found for a
/// hash and which one goes first is up to the derived class. Pure, not thread safe; memory grows
/// with the number of slots ever used. Events are appended to the log that is passed in; stored
/// ones name the blocks' tokens when they are passed in, too: those of the sequence from its start
/// on.
class KvPool {
 public:
  struct Options {
    std::uint64_t blocks_total = 0;  ///< < 2^32 - 1
    /// Off: full blocks are like partial ones, nothing is shared and there are no events.
    bool caching = true;
    bool events = true;
    RankIndex rank{};
    std::uint32_t block_size = 0;  ///< tokens; for events that name them
  };
  using EventLog = std::vector<engine::KvEvent>;
  using Tokens = std::span<const std::uint32_t>;
  /// Leading blocks that are there already, and those of them that requests use.
  struct Prefix {
    std::uint64_t blocks = 0;
    std::uint64_t active = 0;
  };

  explicit KvPool(const Options& options) : options_(options) {}
  virtual ~KvPool() = default;
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  [[nodiscard]] std::uint64_t total() const { return options_.blocks_total; }
  [[nodiscard]] std::uint64_t active() const { return active_; }
  [[nodiscard]] std::uint64_t cached() const { return cached_; }
  [[nodiscard]] std::uint64_t free() const { return options_.blocks_total - active_ - cached_; }
  [[nodiscard]] std::uint64_t available() const { return options_.blocks_total - active_; }
  [[nodiscard]] std::uint64_t event_count() const { return next_event_id_; }

  [[nodiscard]] virtual Prefix FindPrefix(std::span<const LogicalBlock> blocks) const = 0;

  /// Gives every block in `blocks[from, to)` a slot, or none of them: references what is there
  /// already, takes free slots for the rest, then evicts. `blocks[0, from)` are held by the caller,
  /// and FindPrefix found the first `known`. False: not enough slots.
  [[nodiscard]] bool Use(std::span<LogicalBlock> blocks,
                         std::size_t from,
                         std::size_t to,
                         std::size_t known,
                         EventLog& log,
                         Tokens tokens = {}) {
    return Take(blocks, from, to, known, /*arriving=*/false, log, tokens);
  }

  /// As Use for the blocks of a prompt that is on its way here, from the first one on: what is new
  /// stays unknown to others until Publish.
  [[nodiscard]] bool UsePrivately(std::span<LogicalBlock> blocks,
                                  std::size_t known,
                                  EventLog& log) {
    return Take(blocks, 0, blocks.size(), known, /*arriving=*/true, log, {});
  }

  /// The full ones among `blocks[from, to)`, which are held, are computed: others can share them
  /// from now on. Does nothing for those that others share already. Without caching: nothing.
  void Publish(std::span<LogicalBlock> blocks,
               std::size_t from,
               std::size_t to,
               EventLog& log,
               Tokens tokens = {});

  /// Sets `count` slots aside, or none: evicts if there are too few free ones. They count as active
  /// until they are used by UseSpare or given back.
  [[nodiscard]] bool ReserveSpare(std::uint64_t count, EventLog& log);
  /// Gives a partial block one of them.
  void UseSpare(LogicalBlock& block);
  void ReturnSpare();
  [[nodiscard]] std::uint64_t spare() const { return spare_.size(); }

  /// Drops the reference of a held block. A full one without references becomes cached. Blocks of a
  /// request are released last to first.
  void Release(LogicalBlock& block);

  /// Makes all cached slots free; their number. Event: cleared when no slot is active and no other
  /// tier has blocks (`elsewhere`), else removed.
  std::uint64_t ClearCached(bool elsewhere, EventLog& log);

  /// A slot is being read until then: whoever gets it must not write before.
  void MarkCopied(std::uint32_t slot, Nanoseconds until);
  [[nodiscard]] Nanoseconds CopiedUntil(std::uint32_t slot) const {
    return slot < copied_until_.size() ? copied_until_[slot] : Nanoseconds(0);
  }
  /// The latest such moment of the slots given away since the last call.
  [[nodiscard]] Nanoseconds TakeFence() { return std::exchange(fence_, Nanoseconds(0)); }

  /// An event of another tier takes its place and number among those of the pool.
  void Log(engine::KvEvent event, EventLog& log);

  /// Of all blocks that can be shared, sorted. For tests.
  [[nodiscard]] std::vector<BlockHash> KnownBlocks() const;

  /// Walks everything; empty if all is consistent, else what is wrong. For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 protected:
  enum class State : std::uint8_t { kFree, kPrivate, kFull };
  /// A block in the tree of all prefixes.
  struct InTree {
    std::uint64_t tick = 0;  ///< of the entry into the cached state
    /// Slot of the block before. Stays valid: a registered block cannot go before its children.
    std::uint32_t parent = kNoIndex;
    std::uint32_t children = 0;
  };
  /// A copy of a block.
  struct Copy {
    std::uint32_t previous;   ///< cached: the one unused for longer
    std::uint32_t next;       ///< cached: the one unused for less
    std::uint32_t next_copy;  ///< of the same hash
  };
  struct Slot {
    BlockHash hash{};
    union {  // what the derived class keeps
      InTree tree{};
      Copy copy;
    };
    std::uint32_t refs = 0;
    State state = State::kFree;
  };
  /// What became of a block that is to be shared.
  enum class Outcome : std::uint8_t {
    kNew,        ///< nobody knew it
    kShared,     ///< an equal one was there and is referenced instead
    kDuplicate,  ///< an equal one is there as well
  };

  /// Sets the slots of leading blocks of `blocks[from, to)` that are there already; returns where
  /// they end. `revived`: those of them that are cached.
  virtual std::size_t Match(std::span<LogicalBlock> blocks,
                            std::size_t from,
                            std::size_t to,
                            std::size_t known,
                            std::uint64_t& revived) const = 0;
  /// The matched blocks `blocks[from, to)` are not used after all. Takes their slots away.
  virtual void Unmatch(std::span<LogicalBlock> blocks, std::size_t from, std::size_t to) = 0;
  /// Whether a new full block can be shared as soon as it has a slot.
  [[nodiscard]] virtual bool SharesAtOnce() const = 0;
  /// Makes the private slot of `blocks[i]` known under its hash. `missed`: Match has just said that
  /// there is no equal one.
  virtual Outcome Register(std::span<LogicalBlock> blocks, std::size_t i, bool missed) = 0;
  virtual void OnReferenced(std::uint32_t slot) = 0;    ///< was cached
  virtual void OnUnreferenced(std::uint32_t slot) = 0;  ///< is cached
  /// Takes one cached slot out of all lists. There is one. Adds to `gone` a hash that nobody has
  /// any more.
  virtual std::uint32_t Evict(std::vector<BlockHash>& gone) = 0;
  [[nodiscard]] virtual std::string CheckOwn() const = 0;

  void AddReference(std::uint32_t slot);
  void ReturnSlot(std::uint32_t slot);

  Options options_;
  std::vector<Slot> slots_;  ///< those ever used

 private:
  [[nodiscard]] bool Take(std::span<LogicalBlock> blocks,
                          std::size_t from,
                          std::size_t to,
                          std::size_t known,
                          bool arriving,
                          EventLog& log,
                          Tokens tokens);
  void Occupy(LogicalBlock& block);
  [[nodiscard]] std::uint32_t TakeSlot();
  void LogStored(std::span<const LogicalBlock> blocks,
                 std::size_t from,
                 std::size_t to,
                 EventLog& log,
                 Tokens tokens);
  void LogRemoved(EventLog& log);

  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> spare_;
  std::vector<BlockHash> evicted_;         ///< of the running call
  std::vector<Nanoseconds> copied_until_;  ///< by slot; as long as the highest one ever marked
  Nanoseconds fence_{0};
  std::uint64_t active_ = 0;
  std::uint64_t cached_ = 0;
  std::uint64_t next_event_id_ = 0;
};

}  // namespace understudy::mocker
