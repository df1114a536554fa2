#include "plugin/mocker/kv_cache/block_pool.h"

#include "understudy/base/assert.h"

#include <utility>

namespace understudy::mocker {

std::uint32_t BlockPool::Find(std::uint32_t parent, BlockHash hash) const {
  return registered_.Find(Key(parent, hash), [&](std::uint32_t index) {
    const Slot& slot = slots_[index];
    return slot.hash == hash && slot.parent == parent;
  });
}

bool BlockPool::Use(std::span<LogicalBlock> blocks,
                    std::size_t from,
                    std::size_t to,
                    EventLog& log) {
  return Take(blocks, from, to, /*publish=*/true, log);
}

bool BlockPool::UsePrivately(std::span<LogicalBlock> blocks, EventLog& log) {
  return Take(blocks, 0, blocks.size(), /*publish=*/false, log);
}

bool BlockPool::Take(
    std::span<LogicalBlock> blocks, std::size_t from, std::size_t to, bool publish, EventLog& log) {
  // What is there already is a prefix of the blocks asked for, because a registered block's parent
  // is registered.
  std::size_t hit = from;
  std::uint64_t reused = 0;
  std::uint32_t parent = from == 0 ? kNoIndex : blocks[from - 1].slot;
  for (; options_.caching && hit < to && blocks[hit].full; ++hit) {
    const std::uint32_t slot = Find(parent, blocks[hit].hash);
    if (slot == kNoIndex) {
      break;
    }
    blocks[hit].slot = parent = slot;
    reused += slots_[slot].refs == 0 ? 1U : 0U;
  }
  if (to - hit > available() - reused) {
    for (std::size_t i = from; i < hit; ++i) {
      const std::uint32_t slot = std::exchange(blocks[i].slot, kNoIndex);
      if (slots_[slot].refs == 0) {
        slots_[slot].tick = ++tick_;
        OfferVictim(slot);
      }
    }
    return false;
  }
  for (std::size_t i = from; i < hit; ++i) {
    AddReference(blocks[i].slot);
  }
  evicted_.clear();
  std::size_t stored_end = hit;
  for (std::size_t i = hit; i < to; ++i) {
    Occupy(blocks[i]);
    if (publish && blocks[i].full && options_.caching) {
      Register(blocks[i].slot, i == 0 ? kNoIndex : blocks[i - 1].slot, blocks[i].hash);
      stored_end = i + 1;
    }
  }
  LogStored(blocks, hit, stored_end, log);
  LogRemoved(log);
  return true;
}

void BlockPool::Occupy(LogicalBlock& block) {
  block.slot = TakeSlot(evicted_);
  slots_[block.slot] = Slot{.refs = 1, .state = State::kPartial};
  ++active_;
}

void BlockPool::Publish(std::span<LogicalBlock> blocks, EventLog& log) {
  if (!options_.caching) {
    return;
  }
  std::size_t run = 0;  // start of the new blocks not yet reported
  std::size_t i = 0;
  for (; i < blocks.size() && blocks[i].full; ++i) {
    LogicalBlock& block = blocks[i];
    if (slots_[block.slot].state == State::kFull) {  // was there when room was made
      run = i + 1;
      continue;
    }
    const std::uint32_t parent = i == 0 ? kNoIndex : blocks[i - 1].slot;
    const std::uint32_t present = Find(parent, block.hash);
    if (present == kNoIndex) {
      Register(block.slot, parent, block.hash);
      continue;
    }
    LogStored(blocks, run, i, log);
    run = i + 1;
    AddReference(present);
    ReturnSlot(block.slot);
    block.slot = present;
  }
  LogStored(blocks, run, i, log);
}

bool BlockPool::ReserveSpare(std::uint64_t count, EventLog& log) {
  UNDERSTUDY_ASSERT(spare_.empty());
  if (count > available()) {
    return false;
  }
  evicted_.clear();
  for (; count > 0; --count) {
    LogicalBlock block;
    Occupy(block);
    spare_.push_back(block.slot);
  }
  LogRemoved(log);
  return true;
}

void BlockPool::UseSpare(LogicalBlock& block) {
  UNDERSTUDY_ASSERT(!spare_.empty());
  block.slot = spare_.back();
  spare_.pop_back();
}

void BlockPool::ReturnSpare() {
  for (const std::uint32_t slot : spare_) {
    ReturnSlot(slot);
  }
  spare_.clear();
}

void BlockPool::Promote(std::span<LogicalBlock> blocks, EventLog& log) {
  LogicalBlock& block = blocks.back();
  UNDERSTUDY_ASSERT(!block.full && block.slot != kNoIndex);
  block.full = true;
  if (!options_.caching) {
    return;
  }
  const std::size_t last = blocks.size() - 1;
  const std::uint32_t parent = last == 0 ? kNoIndex : blocks[last - 1].slot;
  const std::uint32_t present = Find(parent, block.hash);
  if (present != kNoIndex) {
    AddReference(present);
    ReturnSlot(block.slot);
    block.slot = present;
    return;
  }
  Register(block.slot, parent, block.hash);
  LogStored(blocks, last, last + 1, log);
}

void BlockPool::Release(LogicalBlock& block) {
  const std::uint32_t slot = std::exchange(block.slot, kNoIndex);
  UNDERSTUDY_ASSERT(slot < slots_.size() && slots_[slot].refs > 0);
  if (slots_[slot].state == State::kPartial) {
    ReturnSlot(slot);
  } else if (--slots_[slot].refs == 0) {
    --active_;
    MakeCached(slot);
  }
}

bool BlockPool::IsVictim(const EvictionOrder::Entry& entry) const {
  const Slot& slot = slots_[entry.slot];
  return slot.state == State::kFull && slot.refs == 0 && slot.children == 0 &&
         slot.tick == entry.tick;
}

std::uint32_t BlockPool::TakeSlot(std::vector<BlockHash>& evicted) {
  if (!free_slots_.empty()) {
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (slots_.size() < options_.blocks_total) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  return EvictOne(evicted);
}

std::uint32_t BlockPool::EvictOne(std::vector<BlockHash>& evicted) {
  const EvictionOrder::Entry entry = order_.Pop([this](const auto& e) { return IsVictim(e); });
  UNDERSTUDY_ASSERT(entry.slot !=
                    kNoIndex);  // the caller counted: a cached block without children exists
  const Slot& victim = slots_[entry.slot];
  registered_.Erase(Key(victim.parent, victim.hash), entry.slot);
  evicted.push_back(victim.hash);
  --cached_;
  if (victim.parent != kNoIndex) {
    Slot& parent = slots_[victim.parent];
    --parent.children;
    if (parent.refs == 0) {
      OfferVictim(victim.parent);  // at its own old tick
    }
  }
  return entry.slot;
}

void BlockPool::Register(std::uint32_t slot, std::uint32_t parent, BlockHash hash) {
  slots_[slot].state = State::kFull;
  slots_[slot].hash = hash;
  slots_[slot].parent = parent;
  if (parent != kNoIndex) {
    ++slots_[parent].children;
  }
  registered_.Insert(Key(parent, hash), slot);
}

void BlockPool::AddReference(std::uint32_t slot) {
  if (slots_[slot].refs++ == 0) {
    --cached_;
    ++active_;
  }
}

void BlockPool::MakeCached(std::uint32_t slot) {
  ++cached_;
  slots_[slot].tick = ++tick_;
  OfferVictim(slot);
}

void BlockPool::OfferVictim(std::uint32_t slot) {
  if (slots_[slot].children == 0) {
    order_.Push({slots_[slot].tick, slot}, cached_, [this](const auto& e) { return IsVictim(e); });
  }
}

void BlockPool::ReturnSlot(std::uint32_t slot) {
  slots_[slot] = Slot{};
  free_slots_.push_back(slot);
  --active_;
}

void BlockPool::LogStored(std::span<const LogicalBlock> blocks,
                          std::size_t from,
                          std::size_t to,
                          EventLog& log) {
  if (from >= to || !options_.events) {
    return;
  }
  engine::KvEvent event;
  event.rank = options_.rank;
  event.event_id = next_event_id_++;
  event.kind = engine::KvEvent::Kind::kStored;
  if (from > 0) {
    event.parent = blocks[from - 1].hash;
  }
  event.blocks.reserve(to - from);
  for (std::size_t i = from; i < to; ++i) {
    event.blocks.push_back({blocks[i].hash, blocks[i].tokens_hash});
  }
  log.push_back(std::move(event));
}

void BlockPool::LogRemoved(EventLog& log) {
  if (evicted_.empty() || !options_.events) {
    return;
  }
  engine::KvEvent event;
  event.rank = options_.rank;
  event.event_id = next_event_id_++;
  event.kind = engine::KvEvent::Kind::kRemoved;
  event.blocks.reserve(evicted_.size());
  for (const BlockHash hash : evicted_) {
    event.blocks.push_back({hash, TokensHash{}});
  }
  log.push_back(std::move(event));
}

std::string BlockPool::CheckConsistency() const {
  std::uint64_t used = 0;
  std::uint64_t cached = 0;
  std::uint64_t unused = options_.blocks_total - slots_.size();
  std::vector<std::uint32_t> children(slots_.size(), 0);
  for (const Slot& slot : slots_) {
    used += slot.refs > 0 ? 1U : 0U;
    cached += slot.state == State::kFull && slot.refs == 0 ? 1U : 0U;
    unused += slot.state == State::kFree ? 1U : 0U;
    if (slot.state == State::kFull && slot.parent != kNoIndex) {
      ++children[slot.parent];
      if (slots_[slot.parent].state != State::kFull ||
          (slot.refs > 0 && slots_[slot.parent].refs == 0)) {
        return "a block is held without its parent";
      }
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (children[i] != slots_[i].children) {
      return "a child count is wrong";
    }
  }
  if (used != active_ || cached != cached_ || unused != free() ||
      used + cached + unused != options_.blocks_total) {
    return "used " + std::to_string(used) + " cached " + std::to_string(cached) + " free " +
           std::to_string(unused) + " do not match the counts";
  }
  return {};
}

}  // namespace understudy::mocker
