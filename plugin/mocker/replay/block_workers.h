// Which workers have which block.
#pragma once

#include "plugin/mocker/replay/flat_map.h"

#include <cstdint>
#include <span>
#include <vector>

namespace understudy::mocker {

/// A set of (block, worker) with a question: how many leading blocks of a sequence does each worker
/// have? Memory: about 21 to 43 bytes a block and 64 workers. Not thread safe.
class BlockWorkers {
 public:
  explicit BlockWorkers(std::uint32_t workers) : workers_(workers), shards_((workers + 63) / 64) {}

  void Add(std::uint64_t block, std::uint32_t worker) {
    shards_[worker / 64].At(block) |= 1ULL << (worker % 64);
  }
  void Remove(std::uint64_t block, std::uint32_t worker) {
    FlatMap<std::uint64_t>& shard = shards_[worker / 64];
    std::uint64_t* const holders = shard.Find(block);
    if (holders != nullptr && (*holders &= ~(1ULL << (worker % 64))) == 0) {
      shard.Erase(block);
    }
  }

  /// Fills `depths`, one a worker.
  void Depths(std::span<const std::uint64_t> blocks, std::vector<std::uint32_t>& depths);

  [[nodiscard]] std::size_t blocks() const;

 private:
  std::uint32_t workers_;
  std::vector<FlatMap<std::uint64_t>> shards_;  ///< of 64 workers each, as bits
};

}  // namespace understudy::mocker
