// The KV blocks of one rank: which are used, which are cached, which are free.
#pragma once

#include "plugin/mocker/kv_cache/eviction_order.h"
#include "plugin/mocker/kv_cache/index_table.h"
#include "understudy/base/ids.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace understudy::mocker {

/// One block of a request. Full blocks have hashes and can be shared; the one at the end of a
/// sequence is partial until it is promoted. `slot` is the physical block that holds it, kNoIndex
/// while the request has none.
struct LogicalBlock {
  BlockHash hash{};
  TokensHash tokens_hash{};
  std::uint32_t slot = kNoIndex;
  bool full = false;
};

/// A fixed number of slots, each free, active (referenced by requests) or cached (a full block
/// without references, reusable and evictable). Full blocks form a tree: a block is found by the
/// slot of the block before it and its own chained hash, so blocks with equal hashes but other
/// ancestors can never be taken for each other. Requests hold prefixes, therefore a cached block
/// never has an active descendant, and a victim is a cached block without children, the one with
/// the smallest tick; ticks count entries into the cached state. Pure, not thread safe; memory
/// grows with the number of slots ever used. Events are appended to the log that is passed in.
/// Source: dynamo-mocker 1.3.0 kv_manager, kvbm-logical lineage order; golden vectors
/// pass_vllm_*.json.
class BlockPool {
 public:
  struct Options {
    std::uint64_t blocks_total = 0;  ///< < 2^32 - 1
    /// Off: full blocks are like partial ones, nothing is shared and there are no events.
    bool caching = true;
    bool events = true;
    RankIndex rank{};
  };
  using EventLog = std::vector<engine::KvEvent>;

  explicit BlockPool(const Options& options) : options_(options) {}

  [[nodiscard]] std::uint64_t total() const { return options_.blocks_total; }
  [[nodiscard]] std::uint64_t active() const { return active_; }
  [[nodiscard]] std::uint64_t cached() const { return cached_; }
  [[nodiscard]] std::uint64_t free() const { return options_.blocks_total - active_ - cached_; }
  [[nodiscard]] std::uint64_t available() const { return options_.blocks_total - active_; }
  [[nodiscard]] std::uint64_t event_count() const { return next_event_id_; }

  /// The full block `hash` that follows the block in slot `parent` (kNoIndex: begins a sequence),
  /// or kNoIndex.
  [[nodiscard]] std::uint32_t Find(std::uint32_t parent, BlockHash hash) const;
  [[nodiscard]] bool IsActive(std::uint32_t slot) const { return slots_[slot].refs > 0; }

  /// Gives every block in `blocks[from, to)` a slot, or none of them: references what is there
  /// already, takes free slots for the rest, then evicts. `blocks[0, from)` are held by the caller.
  /// False: not enough slots; then cached blocks that would have been reused count as used just
  /// now. Events: stored (all new full blocks) before removed (all victims).
  [[nodiscard]] bool Use(std::span<LogicalBlock> blocks,
                         std::size_t from,
                         std::size_t to,
                         EventLog& log);

  /// As Use for the blocks of a prompt that is on its way here, from the first one on: what is new
  /// stays unknown to others until Publish.
  [[nodiscard]] bool UsePrivately(std::span<LogicalBlock> blocks, EventLog& log);
  /// The prompt has arrived: its full blocks can be shared. Those that appeared here meanwhile are
  /// referenced, and the own slots return.
  void Publish(std::span<LogicalBlock> blocks, EventLog& log);

  /// Sets `count` slots aside, or none: evicts if there are too few free ones. They count as active
  /// until they are used by UseSpare or given back.
  [[nodiscard]] bool ReserveSpare(std::uint64_t count, EventLog& log);
  /// Gives a partial block one of them.
  void UseSpare(LogicalBlock& block);
  void ReturnSpare();
  [[nodiscard]] std::uint64_t spare() const { return spare_.size(); }

  /// `blocks.back()` is partial, held, and has got its hashes: makes it a full block that others
  /// can share. If an equal one is there already, that one is referenced and the own slot returns.
  void Promote(std::span<LogicalBlock> blocks, EventLog& log);

  /// Drops the reference of a held block. A full one without references becomes cached. Blocks of a
  /// request are released last to first.
  void Release(LogicalBlock& block);

  /// Walks everything; empty if all is consistent, else what is wrong. For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 private:
  enum class State : std::uint8_t { kFree, kPartial, kFull };
  struct Slot {
    BlockHash hash{};
    std::uint64_t tick = 0;  ///< of the entry into the cached state
    /// Slot of the block before. Stays valid: a registered block cannot go before its children.
    std::uint32_t parent = kNoIndex;
    std::uint32_t children = 0;
    std::uint32_t refs = 0;
    State state = State::kFree;
  };

  static std::uint64_t Key(std::uint32_t parent, BlockHash hash) {
    return Value(hash) + (static_cast<std::uint64_t>(parent) + 1) * 0xD6E8FEB86659FD93ULL;
  }
  [[nodiscard]] bool IsVictim(const EvictionOrder::Entry& entry) const;
  [[nodiscard]] bool Take(std::span<LogicalBlock> blocks,
                          std::size_t from,
                          std::size_t to,
                          bool publish,
                          EventLog& log);
  void Occupy(LogicalBlock& block);
  [[nodiscard]] std::uint32_t TakeSlot(std::vector<BlockHash>& evicted);
  std::uint32_t EvictOne(std::vector<BlockHash>& evicted);
  void Register(std::uint32_t slot, std::uint32_t parent, BlockHash hash);
  void AddReference(std::uint32_t slot);
  void MakeCached(std::uint32_t slot);
  void OfferVictim(std::uint32_t slot);
  void ReturnSlot(std::uint32_t slot);
  void LogStored(std::span<const LogicalBlock> blocks,
                 std::size_t from,
                 std::size_t to,
                 EventLog& log);
  void LogRemoved(EventLog& log);

  Options options_;
  std::vector<Slot> slots_;  ///< those ever used
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> spare_;
  std::vector<BlockHash> evicted_;  ///< of the running call
  IndexTable registered_;
  EvictionOrder order_;
  std::uint64_t active_ = 0;
  std::uint64_t cached_ = 0;
  std::uint64_t tick_ = 0;
  std::uint64_t next_event_id_ = 0;
};

}  // namespace understudy::mocker
