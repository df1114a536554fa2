#pragma once

#include "plugin/mocker/policy/policy.h"

namespace understudy::mocker {

/// TensorRT-LLM, GUARANTEED_NO_EVICT: a request is admitted when the pool can hold it to its last
/// token beside all that run, so nobody is ever pushed out. Outputs that the pool could not hold
/// are cut off when the request comes. Source: dynamo-mocker 1.3.0 scheduler/vllm/policy.rs.
class TrtllmPolicy final : public SchedulingPolicy {
 public:
  [[nodiscard]] std::uint64_t Footprint(const Candidate& candidate,
                                        std::uint32_t block_size) const override;
  [[nodiscard]] std::uint64_t Needed(const Candidate& candidate,
                                     std::uint32_t block_size) const override;
  [[nodiscard]] std::uint64_t Available(const PoolView& view) const override;
  [[nodiscard]] bool CountsRunningToFinish() const override { return true; }
  [[nodiscard]] bool MayPreempt() const override { return false; }
  [[nodiscard]] std::uint64_t OutputLimit(const Candidate& candidate,
                                          std::uint64_t blocks_total,
                                          std::uint32_t block_size) const override;
};

}  // namespace understudy::mocker
