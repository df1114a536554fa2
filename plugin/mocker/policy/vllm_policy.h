#pragma once

#include "plugin/mocker/policy/policy.h"

namespace understudy::mocker {

/// vLLM: admit what fits now, preempt when it no longer fits. Blocks that are cached but unused
/// count as needed, because reusing them takes them from the pool. Source: dynamo-mocker 1.3.0
/// scheduler/vllm/policy.rs.
class VllmPolicy final : public SchedulingPolicy {
 public:
  [[nodiscard]] std::uint64_t Footprint(const Candidate& candidate,
                                        std::uint32_t block_size) const override;
  [[nodiscard]] std::uint64_t Needed(const Candidate& candidate,
                                     std::uint32_t block_size) const override;
  [[nodiscard]] std::uint64_t Available(const PoolView& view) const override;
  [[nodiscard]] bool CountsRunningToFinish() const override { return false; }
  [[nodiscard]] bool MayPreempt() const override { return true; }
  [[nodiscard]] std::uint64_t OutputLimit(const Candidate& candidate,
                                          std::uint64_t blocks_total,
                                          std::uint32_t block_size) const override;
};

}  // namespace understudy::mocker
