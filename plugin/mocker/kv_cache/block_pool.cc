#include "plugin/mocker/kv_cache/block_pool.h"

#include "understudy/base/assert.h"

#include <utility>

namespace understudy::mocker {

std::uint32_t BlockPool::Find(std::uint32_t parent, BlockHash hash) const {
  return registered_.Find(Key(parent, hash), [&](std::uint32_t index) {
    const Slot& slot = slots_[index];
    return slot.hash == hash && slot.tree.parent == parent;
  });
}

KvPool::Prefix BlockPool::FindPrefix(std::span<const LogicalBlock> blocks) const {
  Prefix prefix;
  std::uint32_t parent = kNoIndex;
  for (const LogicalBlock& block : blocks) {
    const std::uint32_t slot = block.full ? Find(parent, block.hash) : kNoIndex;
    if (slot == kNoIndex) {
      break;
    }
    parent = slot;
    ++prefix.blocks;
    prefix.active += slots_[slot].refs > 0 ? 1U : 0U;
  }
  return prefix;
}

std::size_t BlockPool::Match(std::span<LogicalBlock> blocks,
                             std::size_t from,
                             std::size_t to,
                             std::size_t /*known*/,
                             std::uint64_t& revived) const {
  // What is there already is a prefix of the blocks asked for, because a registered block's parent
  // is registered.
  std::size_t hit = from;
  std::uint32_t parent = from == 0 ? kNoIndex : blocks[from - 1].slot;
  for (; hit < to && blocks[hit].full; ++hit) {
    const std::uint32_t slot = Find(parent, blocks[hit].hash);
    if (slot == kNoIndex) {
      break;
    }
    blocks[hit].slot = parent = slot;
    revived += slots_[slot].refs == 0 ? 1U : 0U;
  }
  return hit;
}

void BlockPool::Unmatch(std::span<LogicalBlock> blocks, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const std::uint32_t slot = std::exchange(blocks[i].slot, kNoIndex);
    if (slots_[slot].refs == 0) {
      OnUnreferenced(slot);
    }
  }
}

KvPool::Outcome BlockPool::Register(std::span<LogicalBlock> blocks, std::size_t i, bool missed) {
  LogicalBlock& block = blocks[i];
  const std::uint32_t parent = i == 0 ? kNoIndex : blocks[i - 1].slot;
  const std::uint32_t present = missed ? kNoIndex : Find(parent, block.hash);
  if (present != kNoIndex) {
    AddReference(present);
    ReturnSlot(block.slot);
    block.slot = present;
    return Outcome::kShared;
  }
  Slot& slot = slots_[block.slot];
  slot.state = State::kFull;
  slot.hash = block.hash;
  slot.tree.parent = parent;
  if (parent != kNoIndex) {
    ++slots_[parent].tree.children;
  }
  registered_.Insert(Key(parent, block.hash), block.slot);
  return Outcome::kNew;
}

void BlockPool::OnUnreferenced(std::uint32_t slot) {
  slots_[slot].tree.tick = ++tick_;
  OfferVictim(slot);
}

bool BlockPool::IsVictim(const EvictionOrder::Entry& entry) const {
  const Slot& slot = slots_[entry.slot];
  return slot.state == State::kFull && slot.refs == 0 && slot.tree.children == 0 &&
         slot.tree.tick == entry.tick;
}

void BlockPool::OfferVictim(std::uint32_t slot) {
  if (slots_[slot].tree.children == 0) {
    order_.Push(
        {slots_[slot].tree.tick, slot}, cached(), [this](const auto& e) { return IsVictim(e); });
  }
}

std::uint32_t BlockPool::Evict(std::vector<BlockHash>& gone) {
  const EvictionOrder::Entry entry = order_.Pop([this](const auto& e) { return IsVictim(e); });
  UNDERSTUDY_ASSERT(entry.slot != kNoIndex);  // a cached block without children exists
  const Slot& victim = slots_[entry.slot];
  registered_.Erase(Key(victim.tree.parent, victim.hash), entry.slot);
  gone.push_back(victim.hash);
  if (victim.tree.parent != kNoIndex) {
    Slot& parent = slots_[victim.tree.parent];
    --parent.tree.children;
    if (parent.refs == 0) {
      OfferVictim(victim.tree.parent);  // at its own old tick
    }
  }
  return entry.slot;
}

std::string BlockPool::CheckOwn() const {
  std::vector<std::uint32_t> children(slots_.size(), 0);
  for (const Slot& slot : slots_) {
    if (slot.state != State::kFull || slot.tree.parent == kNoIndex) {
      continue;
    }
    ++children[slot.tree.parent];
    if (slots_[slot.tree.parent].state != State::kFull ||
        (slot.refs > 0 && slots_[slot.tree.parent].refs == 0)) {
      return "a block is held without its parent";
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kFull && children[i] != slots_[i].tree.children) {
      return "a child count is wrong";
    }
  }
  return {};
}

}  // namespace understudy::mocker
