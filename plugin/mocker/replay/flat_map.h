// A hash table from block hashes to small values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace understudy::mocker {

/// Open addressing, linear probing, deletion without tombstones. Keys are hashes already. An empty
/// table owns no memory. Not thread safe.
template <class V>
class FlatMap {
 public:
  /// Null if `key` is not there. Valid until the table changes.
  [[nodiscard]] V* Find(std::uint64_t key) {
    if (cells_.empty()) {
      return nullptr;
    }
    key = Stored(key);
    for (std::size_t at = Home(key);; at = (at + 1) & mask_) {
      if (cells_[at].key == key) {
        return &cells_[at].value;
      }
      if (cells_[at].key == kFree) {
        return nullptr;
      }
    }
  }

  /// The value of `key`, V{} if it was not there.
  [[nodiscard]] V& At(std::uint64_t key) {
    if ((size_ + 1) * 4 > cells_.size() * 3) {
      Grow();
    }
    key = Stored(key);
    std::size_t at = Home(key);
    while (cells_[at].key != kFree && cells_[at].key != key) {
      at = (at + 1) & mask_;
    }
    if (cells_[at].key == kFree) {
      cells_[at] = {key, V{}};
      ++size_;
    }
    return cells_[at].value;
  }

  /// `key` is there.
  void Erase(std::uint64_t key) {
    key = Stored(key);
    std::size_t hole = Home(key);
    while (cells_[hole].key != key) {
      hole = (hole + 1) & mask_;
    }
    // What stands behind moves up, unless it is nearer to its place where it is.
    for (std::size_t at = (hole + 1) & mask_; cells_[at].key != kFree; at = (at + 1) & mask_) {
      if (((at - Home(cells_[at].key)) & mask_) >= ((at - hole) & mask_)) {
        cells_[hole] = std::move(cells_[at]);
        hole = at;
      }
    }
    cells_[hole].key = kFree;
    --size_;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Cell {
    std::uint64_t key = kFree;
    V value{};
  };
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kZero = 0x5851F42D4C957F2DULL;
  static constexpr std::size_t kCellsMin = 16;

  /// A hash of 0 gets another name; two hashes are then one with the usual odds of hashes.
  static std::uint64_t Stored(std::uint64_t key) { return key == kFree ? kZero : key; }
  [[nodiscard]] std::size_t Home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 20U) & mask_;
  }

  void Grow() {
    std::vector<Cell> old =
        std::exchange(cells_, std::vector<Cell>(cells_.empty() ? kCellsMin : 2 * cells_.size()));
    mask_ = cells_.size() - 1;
    for (Cell& cell : old) {
      if (cell.key != kFree) {
        std::size_t at = Home(cell.key);
        while (cells_[at].key != kFree) {
          at = (at + 1) & mask_;
        }
        cells_[at] = std::move(cell);
      }
    }
  }

  std::vector<Cell> cells_;  ///< a power of two, at most three quarters full
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace understudy::mocker
