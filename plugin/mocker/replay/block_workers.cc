#include "plugin/mocker/replay/block_workers.h"

#include <bit>

namespace understudy::mocker {

void BlockWorkers::Depths(std::span<const std::uint64_t> blocks,
                          std::vector<std::uint32_t>& depths) {
  depths.assign(workers_, static_cast<std::uint32_t>(blocks.size()));
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const std::uint32_t count = workers_ - s * 64;
    std::uint64_t following = count >= 64 ? ~0ULL : (1ULL << count) - 1;
    for (std::uint32_t i = 0; i < blocks.size() && following != 0; ++i) {
      const std::uint64_t* const holders = shards_[s].Find(blocks[i]);
      const std::uint64_t have = holders == nullptr ? 0 : *holders;
      for (std::uint64_t lost = following & ~have; lost != 0; lost &= lost - 1) {
        depths[s * 64 + static_cast<std::uint32_t>(std::countr_zero(lost))] = i;
      }
      following &= have;
    }
  }
}

std::size_t BlockWorkers::blocks() const {
  std::size_t sum = 0;
  for (const FlatMap<std::uint64_t>& shard : shards_) {
    sum += shard.size();
  }
  return sum;
}

}  // namespace understudy::mocker
