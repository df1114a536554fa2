#include "plugin/mocker/kv_cache/kv_pool.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

bool KvPool::Take(std::span<LogicalBlock> blocks,
                  std::size_t from,
                  std::size_t to,
                  std::size_t known,
                  bool arriving,
                  EventLog& log,
                  Tokens tokens) {
  std::uint64_t revived = 0;
  const std::size_t hit = options_.caching ? Match(blocks, from, to, known, revived) : from;
  if (to - hit > available() - revived) {
    Unmatch(blocks, from, hit);
    return false;
  }
  for (std::size_t i = from; i < hit; ++i) {
    AddReference(blocks[i].slot);
  }
  evicted_.clear();
  const bool share = options_.caching && !arriving && SharesAtOnce();
  std::size_t stored_end = hit;
  for (std::size_t i = hit; i < to; ++i) {
    Occupy(blocks[i]);
    if (share && blocks[i].full) {
      Register(blocks, i, /*missed=*/true);
      stored_end = i + 1;
    }
  }
  LogStored(blocks, hit, stored_end, log, tokens);
  LogRemoved(log);
  return true;
}

void KvPool::Publish(std::span<LogicalBlock> blocks,
                     std::size_t from,
                     std::size_t to,
                     EventLog& log,
                     Tokens tokens) {
  if (!options_.caching) {
    return;
  }
  std::size_t run = from;  // start of the new blocks not yet reported
  std::size_t i = from;
  for (; i < to && blocks[i].full; ++i) {
    const bool known = slots_[blocks[i].slot].state == State::kFull;
    if (known || Register(blocks, i, /*missed=*/false) != Outcome::kNew) {
      LogStored(blocks, run, i, log, tokens);
      run = i + 1;
    }
  }
  LogStored(blocks, run, i, log, tokens);
}

bool KvPool::ReserveSpare(std::uint64_t count, EventLog& log) {
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

void KvPool::UseSpare(LogicalBlock& block) {
  UNDERSTUDY_ASSERT(!spare_.empty());
  block.slot = spare_.back();
  spare_.pop_back();
}

void KvPool::ReturnSpare() {
  for (const std::uint32_t slot : spare_) {
    ReturnSlot(slot);
  }
  spare_.clear();
}

void KvPool::Release(LogicalBlock& block) {
  const std::uint32_t slot = std::exchange(block.slot, kNoIndex);
  UNDERSTUDY_ASSERT(slot < slots_.size() && slots_[slot].refs > 0);
  if (slots_[slot].state == State::kPrivate) {
    ReturnSlot(slot);
  } else if (--slots_[slot].refs == 0) {
    --active_;
    ++cached_;
    OnUnreferenced(slot);
  }
}

void KvPool::Occupy(LogicalBlock& block) {
  block.slot = TakeSlot();
  fence_ = std::max(fence_, CopiedUntil(block.slot));
  slots_[block.slot] = Slot{};
  slots_[block.slot].refs = 1;
  slots_[block.slot].state = State::kPrivate;
  ++active_;
}

std::uint32_t KvPool::TakeSlot() {
  if (!free_slots_.empty()) {
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (slots_.size() < options_.blocks_total) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  UNDERSTUDY_ASSERT(cached_ > 0);  // the caller counted
  --cached_;
  return Evict(evicted_);
}

void KvPool::AddReference(std::uint32_t slot) {
  if (slots_[slot].refs++ == 0) {
    --cached_;
    ++active_;
    OnReferenced(slot);
  }
}

void KvPool::ReturnSlot(std::uint32_t slot) {
  slots_[slot] = Slot{};
  free_slots_.push_back(slot);
  --active_;
}

void KvPool::MarkCopied(std::uint32_t slot, Nanoseconds until) {
  if (slot >= copied_until_.size()) {
    copied_until_.resize(std::size_t{slot} + 1, Nanoseconds(0));
  }
  copied_until_[slot] = std::max(copied_until_[slot], until);
}

void KvPool::Log(engine::KvEvent event, EventLog& log) {
  if (options_.events) {
    event.rank = options_.rank;
    event.event_id = next_event_id_++;
    log.push_back(std::move(event));
  }
}

void KvPool::LogStored(std::span<const LogicalBlock> blocks,
                       std::size_t from,
                       std::size_t to,
                       EventLog& log,
                       Tokens tokens) {
  if (from >= to || !options_.events) {
    return;
  }
  engine::KvEvent event;
  event.kind = engine::KvEvent::Kind::kStored;
  if (from > 0) {
    event.parent = blocks[from - 1].hash;
  }
  event.blocks.reserve(to - from);
  for (std::size_t i = from; i < to; ++i) {
    event.blocks.push_back({blocks[i].hash, blocks[i].tokens_hash});
  }
  if (!tokens.empty()) {
    const auto own = tokens.subspan(from * options_.block_size, (to - from) * options_.block_size);
    event.tokens.assign(own.begin(), own.end());
  }
  Log(std::move(event), log);
}

void KvPool::LogRemoved(EventLog& log) {
  if (evicted_.empty() || !options_.events) {
    return;
  }
  engine::KvEvent event;
  event.kind = engine::KvEvent::Kind::kRemoved;
  event.blocks.reserve(evicted_.size());
  for (const BlockHash hash : evicted_) {
    event.blocks.push_back({hash, TokensHash{}});
  }
  Log(std::move(event), log);
}

std::vector<BlockHash> KvPool::KnownBlocks() const {
  std::vector<BlockHash> blocks;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kFull) {
      blocks.push_back(slot.hash);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

std::uint64_t KvPool::ClearCached(bool elsewhere, EventLog& log) {
  evicted_.clear();
  const std::uint64_t cleared = cached_;
  for (; cached_ > 0; --cached_) {
    const std::uint32_t slot = Evict(evicted_);
    slots_[slot] = Slot{};
    free_slots_.push_back(slot);
  }
  if (active_ > 0 || elsewhere) {
    LogRemoved(log);
  } else {
    engine::KvEvent event;
    event.kind = engine::KvEvent::Kind::kCleared;
    Log(std::move(event), log);
  }
  return cleared;
}

std::string KvPool::CheckConsistency() const {
  std::uint64_t used = 0;
  std::uint64_t cached = 0;
  std::uint64_t unused = options_.blocks_total - slots_.size();
  for (const Slot& slot : slots_) {
    used += slot.refs > 0 ? 1U : 0U;
    cached += slot.state == State::kFull && slot.refs == 0 ? 1U : 0U;
    unused += slot.state == State::kFree ? 1U : 0U;
  }
  if (used != active_ || cached != cached_ || unused != free() ||
      used + cached + unused != options_.blocks_total) {
    return "used " + std::to_string(used) + " cached " + std::to_string(cached) + " free " +
           std::to_string(unused) + " do not match the counts";
  }
  return CheckOwn();
}

}  // namespace understudy::mocker
