#include "worker/kv_relay/indexer.h"

#include <algorithm>

namespace understudy::worker {

using transport::RouterEvent;

bool Indexer::Admit(RouterEvent& event) {
  auto& tree = trees_[static_cast<std::size_t>(event.tier)];
  switch (event.kind) {
    case RouterEvent::Kind::kStored:
      if (!tree) {
        tree = std::make_unique<BlockTree>();
      }
      tree->Store(event.parent, event.blocks);
      return true;
    case RouterEvent::Kind::kRemoved:
      if (tree) {
        std::erase_if(event.blocks,
                      [&](const auto& block) { return !tree->Remove(block.block_hash); });
      }
      return !event.blocks.empty();
    case RouterEvent::Kind::kCleared:
      for (auto& one : trees_) {
        if (one) {
          one->Clear();
        }
      }
      return true;
  }
  return false;
}

void Indexer::Record(const RouterEvent& event) {
  last_id_ = event.event_id;
  if (answers_queries_) {
    ring_.Push(event);
  }
}

Indexer::Plan Indexer::PlanFor(std::optional<std::uint64_t> start,
                               std::optional<std::uint64_t> end) const {
  if (start && end && *end < *start) {
    return InvalidRange{*start, *end};
  }
  if (!start || ring_.empty()) {
    return Dump{};
  }
  if (*start > ring_.last_id()) {
    return TooNew{*start, end.value_or(ring_.last_id()), ring_.last_id()};
  }
  if (*start < ring_.first_id()) {
    return Dump{};
  }
  return Range{ring_.StartOf(*start), ring_.last_id()};
}

std::size_t Indexer::blocks() const {
  std::size_t sum = 0;
  for (const auto& tree : trees_) {
    sum += tree ? tree->size() : 0;
  }
  return sum;
}

std::uint64_t Indexer::doubtful() const {
  std::uint64_t sum = 0;
  for (const auto& tree : trees_) {
    sum += tree ? tree->overflowed() + tree->orphans() : 0;
  }
  return sum;
}

}  // namespace understudy::worker
