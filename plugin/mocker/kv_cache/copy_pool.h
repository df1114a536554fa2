// The block pool of release 1.6: physical copies, the one unused for longest goes first.
#pragma once

#include "plugin/mocker/kv_cache/kv_pool.h"

namespace understudy::mocker {

/// A block is private until its last token is computed (Publish); then its copy is known under its
/// hash. Requests that compute the same prompt at the same time make several copies; the oldest is
/// the one that is found. A removed event goes out with the last copy. Victims in the order in
/// which they became unused. Source: aisimulate-core 0.13.0 cache/vllm_block_pool.rs
/// (engine-1.6.md 2); golden vectors engine-1.6/pass_vllm_*.json.
class CopyPool final : public KvPool {
 public:
  using KvPool::KvPool;

  [[nodiscard]] Prefix FindPrefix(std::span<const LogicalBlock> blocks) const override;

 private:
  [[nodiscard]] std::uint32_t Find(BlockHash hash) const;
  std::size_t Match(std::span<LogicalBlock> blocks,
                    std::size_t from,
                    std::size_t to,
                    std::size_t known,
                    std::uint64_t& revived) const override;
  void Unmatch(std::span<LogicalBlock> blocks, std::size_t from, std::size_t to) override;
  [[nodiscard]] bool SharesAtOnce() const override { return false; }
  Outcome Register(std::span<LogicalBlock> blocks, std::size_t i, bool missed) override;
  void OnReferenced(std::uint32_t slot) override;
  void OnUnreferenced(std::uint32_t slot) override;
  std::uint32_t Evict(std::vector<BlockHash>& gone) override;
  [[nodiscard]] std::string CheckOwn() const override;

  IndexTable first_copies_;
  std::uint32_t oldest_ = kNoIndex;
  std::uint32_t newest_ = kNoIndex;
};

}  // namespace understudy::mocker
