#include "plugin/mocker/policy/trtllm_policy.h"

#include <algorithm>

namespace understudy::mocker {

std::uint64_t TrtllmPolicy::Footprint(const Candidate& candidate, std::uint32_t block_size) const {
  return (candidate.prompt + candidate.output_max + block_size - 1) / block_size;
}

std::uint64_t TrtllmPolicy::Needed(const Candidate& candidate, std::uint32_t block_size) const {
  const std::uint64_t all = Footprint(candidate, block_size);
  const std::uint64_t there = candidate.allocated > 0
                                  ? (candidate.allocated + block_size - 1) / block_size
                                  : candidate.active_cached / block_size;
  return all > there ? all - there : 0;
}

std::uint64_t TrtllmPolicy::Available(const PoolView& view) const {
  const std::uint64_t taken = view.blocks_active + view.running_to_finish;
  return view.blocks_total > taken ? view.blocks_total - taken : 0;
}

std::uint64_t TrtllmPolicy::OutputLimit(const Candidate& candidate,
                                        std::uint64_t blocks_total,
                                        std::uint32_t block_size) const {
  const std::uint64_t capacity = blocks_total * block_size;
  return candidate.prompt < capacity ? std::min(candidate.output_max, capacity - candidate.prompt)
                                     : candidate.output_max;
}

}  // namespace understudy::mocker
