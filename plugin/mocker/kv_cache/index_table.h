// A hash table of indexes into somebody else's vector.
#pragma once

#include <cstdint>
#include <vector>

namespace understudy::mocker {

inline constexpr std::uint32_t kNoIndex = 0xFFFFFFFFU;

/// Open addressing, linear probing, deletion without tombstones. It stores 8 bytes an entry and no
/// key: the caller compares what an index stands for. Empty tables own no memory. Not thread safe.
class IndexTable {
 public:
  /// The index whose entry has `hash` and for which `same(index)` is true, or kNoIndex.
  template <class Same>
  [[nodiscard]] std::uint32_t Find(std::uint64_t hash, Same same) const {
    if (cells_.empty()) {
      return kNoIndex;
    }
    const std::uint32_t tag = Tag(hash);
    for (std::size_t at = tag & mask_;; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      if (cell.index == kNoIndex || (cell.tag == tag && same(cell.index))) {
        return cell.index;
      }
    }
  }

  /// `index` is not in the table yet.
  void Insert(std::uint64_t hash, std::uint32_t index);

  /// `index` was inserted with `hash`.
  void Erase(std::uint64_t hash, std::uint32_t index);

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Cell {
    std::uint32_t tag = 0;
    std::uint32_t index = kNoIndex;
  };

  static std::uint32_t Tag(std::uint64_t hash) {
    hash ^= hash >> 32U;
    hash *= 0x9E3779B97F4A7C15ULL;
    return static_cast<std::uint32_t>(hash >> 32U);
  }
  void Place(Cell cell);
  void Grow();

  std::vector<Cell> cells_;  ///< a power of two, at most three quarters full
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace understudy::mocker
