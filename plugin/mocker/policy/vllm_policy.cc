#include "plugin/mocker/policy/vllm_policy.h"

namespace understudy::mocker {

std::uint64_t VllmPolicy::Footprint(const Candidate& candidate, std::uint32_t block_size) const {
  return (candidate.length + block_size - 1) / block_size;
}

std::uint64_t VllmPolicy::Needed(const Candidate& candidate, std::uint32_t block_size) const {
  const std::uint64_t all = Footprint(candidate, block_size);
  const std::uint64_t shared = candidate.active_cached / block_size;
  return all > shared ? all - shared : 0;
}

std::uint64_t VllmPolicy::Available(const PoolView& view) const {
  return view.blocks_total - view.blocks_active;
}

std::uint64_t VllmPolicy::OutputLimit(const Candidate& candidate,
                                      std::uint64_t /*blocks_total*/,
                                      std::uint32_t /*block_size*/) const {
  return candidate.output_max;
}

}  // namespace understudy::mocker
