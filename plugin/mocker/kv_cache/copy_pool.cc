#include "plugin/mocker/kv_cache/copy_pool.h"

#include <algorithm>

namespace understudy::mocker {

std::uint32_t CopyPool::Find(BlockHash hash) const {
  return first_copies_.Find(Value(hash),
                            [&](std::uint32_t index) { return slots_[index].hash == hash; });
}

KvPool::Prefix CopyPool::FindPrefix(std::span<const LogicalBlock> blocks) const {
  Prefix prefix;
  for (const LogicalBlock& block : blocks) {
    const std::uint32_t slot = block.full ? Find(block.hash) : kNoIndex;
    if (slot == kNoIndex) {
      break;
    }
    ++prefix.blocks;
    prefix.active += slots_[slot].refs > 0 ? 1U : 0U;
  }
  return prefix;
}

std::size_t CopyPool::Match(std::span<LogicalBlock> blocks,
                            std::size_t from,
                            std::size_t to,
                            std::size_t known,
                            std::uint64_t& revived) const {
  std::size_t hit = from;
  for (; hit < std::min(to, known); ++hit) {
    const std::uint32_t slot = Find(blocks[hit].hash);
    blocks[hit].slot = slot;
    revived += slots_[slot].refs == 0 ? 1U : 0U;
  }
  return hit;
}

void CopyPool::Unmatch(std::span<LogicalBlock> blocks, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    blocks[i].slot = kNoIndex;
  }
}

KvPool::Outcome CopyPool::Register(std::span<LogicalBlock> blocks, std::size_t i, bool /*missed*/) {
  const std::uint32_t index = blocks[i].slot;
  Slot& slot = slots_[index];
  slot.state = State::kFull;
  slot.hash = blocks[i].hash;
  slot.copy = Copy{kNoIndex, kNoIndex, kNoIndex};
  std::uint32_t last = Find(slot.hash);
  if (last == kNoIndex) {
    first_copies_.Insert(Value(slot.hash), index);
    return Outcome::kNew;
  }
  while (slots_[last].copy.next_copy != kNoIndex) {
    last = slots_[last].copy.next_copy;
  }
  slots_[last].copy.next_copy = index;
  return Outcome::kDuplicate;
}

void CopyPool::OnReferenced(std::uint32_t slot) {
  const Copy& copy = slots_[slot].copy;
  (copy.previous == kNoIndex ? oldest_ : slots_[copy.previous].copy.next) = copy.next;
  (copy.next == kNoIndex ? newest_ : slots_[copy.next].copy.previous) = copy.previous;
}

void CopyPool::OnUnreferenced(std::uint32_t slot) {
  Copy& copy = slots_[slot].copy;
  copy.previous = newest_;
  copy.next = kNoIndex;
  (newest_ == kNoIndex ? oldest_ : slots_[newest_].copy.next) = slot;
  newest_ = slot;
}

std::uint32_t CopyPool::Evict(std::vector<BlockHash>& gone) {
  const std::uint32_t victim = oldest_;
  OnReferenced(victim);  // leaves the list
  const BlockHash hash = slots_[victim].hash;
  const std::uint32_t after = slots_[victim].copy.next_copy;
  std::uint32_t before = Find(hash);
  if (before != victim) {
    while (slots_[before].copy.next_copy != victim) {
      before = slots_[before].copy.next_copy;
    }
    slots_[before].copy.next_copy = after;
    return victim;
  }
  first_copies_.Erase(Value(hash), victim);
  if (after != kNoIndex) {
    first_copies_.Insert(Value(hash), after);
  } else {
    gone.push_back(hash);
  }
  return victim;
}

std::string CopyPool::CheckOwn() const {
  std::uint64_t listed = 0;
  for (std::uint32_t slot = oldest_; slot != kNoIndex; slot = slots_[slot].copy.next) {
    if (slots_[slot].state != State::kFull || slots_[slot].refs != 0) {
      return "a block that is in use is in the list of unused ones";
    }
    ++listed;
  }
  if (listed != cached()) {
    return "the list of unused blocks holds " + std::to_string(listed) + ", cached are " +
           std::to_string(cached());
  }
  for (const Slot& slot : slots_) {
    if (slot.state == State::kFull && Find(slot.hash) == kNoIndex) {
      return "a full block cannot be found";
    }
  }
  return {};
}

}  // namespace understudy::mocker
