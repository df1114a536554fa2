#include "plugin/mocker/kv_cache/index_table.h"

#include "understudy/base/assert.h"

#include <utility>

namespace understudy::mocker {

namespace {
constexpr std::size_t kFirstCells = 16;
}  // namespace

void IndexTable::Insert(std::uint64_t hash, std::uint32_t index) {
  if ((size_ + 1) * 4 > cells_.size() * 3) {
    Grow();
  }
  Place({Tag(hash), index});
  ++size_;
}

void IndexTable::Erase(std::uint64_t hash, std::uint32_t index) {
  UNDERSTUDY_ASSERT(!cells_.empty());
  std::size_t hole = Tag(hash) & mask_;
  while (cells_[hole].index != index) {
    UNDERSTUDY_ASSERT(cells_[hole].index != kNoIndex);
    hole = (hole + 1) & mask_;
  }
  // Close the hole: every later entry of the run that may stand there moves up.
  for (std::size_t at = (hole + 1) & mask_; cells_[at].index != kNoIndex; at = (at + 1) & mask_) {
    const std::size_t home = cells_[at].tag & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      cells_[hole] = cells_[at];
      hole = at;
    }
  }
  cells_[hole] = Cell{};
  --size_;
}

void IndexTable::Place(Cell cell) {
  std::size_t at = cell.tag & mask_;
  while (cells_[at].index != kNoIndex) {
    at = (at + 1) & mask_;
  }
  cells_[at] = cell;
}

void IndexTable::Grow() {
  const std::size_t size = cells_.empty() ? kFirstCells : cells_.size() * 2;
  std::vector<Cell> old = std::exchange(cells_, std::vector<Cell>(size));
  mask_ = size - 1;
  for (const Cell& cell : old) {
    if (cell.index != kNoIndex) {
      Place(cell);
    }
  }
}

}  // namespace understudy::mocker
