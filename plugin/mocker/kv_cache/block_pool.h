// The block pool of release 1.3: one slot per block, victims by lineage.
#pragma once

#include "plugin/mocker/kv_cache/eviction_order.h"
#include "plugin/mocker/kv_cache/kv_pool.h"

namespace understudy::mocker {

/// Full blocks form a tree: a block is found by the slot of the block before it and its own chained
/// hash, so blocks with equal hashes but other ancestors can never be taken for each other.
/// Requests hold prefixes, therefore a cached block never has an active descendant, and a victim is
/// a cached block without children, the one with the smallest tick; ticks count entries into the
/// cached state. A full block can be shared as soon as it has a slot, and an equal one is never
/// kept twice. Source: dynamo-mocker 1.3.0 kv_manager, kvbm-logical lineage order; golden vectors
/// engine/pass_vllm_*.json.
class BlockPool final : public KvPool {
 public:
  using KvPool::KvPool;

  /// The full block `hash` that follows the block in slot `parent` (kNoIndex: begins a sequence),
  /// or kNoIndex.
  [[nodiscard]] std::uint32_t Find(std::uint32_t parent, BlockHash hash) const;
  [[nodiscard]] Prefix FindPrefix(std::span<const LogicalBlock> blocks) const override;

 private:
  static std::uint64_t Key(std::uint32_t parent, BlockHash hash) {
    return Value(hash) + (static_cast<std::uint64_t>(parent) + 1) * 0xD6E8FEB86659FD93ULL;
  }
  std::size_t Match(std::span<LogicalBlock> blocks,
                    std::size_t from,
                    std::size_t to,
                    std::size_t known,
                    std::uint64_t& revived) const override;
  /// Cached blocks that would have been reused count as used just now.
  void Unmatch(std::span<LogicalBlock> blocks, std::size_t from, std::size_t to) override;
  [[nodiscard]] bool SharesAtOnce() const override { return true; }
  Outcome Register(std::span<LogicalBlock> blocks, std::size_t i, bool missed) override;
  void OnReferenced(std::uint32_t /*slot*/) override {}  // its entry in order_ is stale now
  void OnUnreferenced(std::uint32_t slot) override;
  std::uint32_t Evict(std::vector<BlockHash>& gone) override;
  [[nodiscard]] std::string CheckOwn() const override;
  [[nodiscard]] bool IsVictim(const EvictionOrder::Entry& entry) const;
  void OfferVictim(std::uint32_t slot);

  IndexTable registered_;
  EvictionOrder order_;
  std::uint64_t tick_ = 0;
};

}  // namespace understudy::mocker
