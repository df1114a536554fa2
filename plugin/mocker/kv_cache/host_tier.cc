#include "plugin/mocker/kv_cache/host_tier.h"

#include "understudy/base/assert.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace understudy::mocker {

namespace {

constexpr double kBytesPerGb = 1e9;
constexpr double kNsPerS = 1e9;
/// No transfer is modelled longer (about three years).
constexpr double kTransferNsMax = 1e17;

double NsPerBlock(double gbps, std::uint64_t bytes) {
  return gbps == 0.0 ? 0.0 : static_cast<double>(bytes) / (gbps * kBytesPerGb) * kNsPerS;
}

}  // namespace

HostTier::HostTier(const Options& options)
    : options_(options),
      to_host_{NsPerBlock(options.to_host_gbps, options.block_bytes), Nanoseconds(0)},
      to_device_{NsPerBlock(options.to_device_gbps, options.block_bytes), Nanoseconds(0)} {}

HostTier::Found HostTier::Find(BlockHash block) const {
  const auto entry = entries_.find(block);
  if (entry == entries_.end()) {
    return Found::kNothing;
  }
  return entry->second.store != 0 || entry->second.pins > 0 ? Found::kUnderWay : Found::kResident;
}

void HostTier::Touch(std::span<const LogicalBlock> blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const auto entry = entries_.find(block->hash);
    if (entry != entries_.end() && entry->second.store == 0 && entry->second.pins == 0) {
      Withdraw(block->hash, entry->second);
      Offer(block->hash, entry->second, ++moment_);
    }
  }
}

void HostTier::Offer(BlockHash block, Entry& entry, std::uint64_t moment) {
  entry.used = moment;
  order_.emplace(moment, block);
}

void HostTier::Withdraw(BlockHash block, const Entry& entry) {
  order_.erase({entry.used, block});
}

std::vector<BlockHash> HostTier::Victims(std::uint64_t count,
                                         std::span<const LogicalBlock> spared) const {
  std::vector<BlockHash> victims;
  std::unordered_set<BlockHash> keep;
  for (const LogicalBlock& block : spared) {
    keep.insert(block.hash);
  }
  for (auto entry = order_.begin(); entry != order_.end() && victims.size() < count; ++entry) {
    if (!keep.contains(entry->second)) {
      victims.push_back(entry->second);
    }
  }
  return victims;
}

HostTier::TransferId HostTier::PrepareStore(std::span<const LogicalBlock> blocks,
                                            std::size_t from,
                                            std::size_t to,
                                            KvPool::Tokens tokens) {
  Transfer transfer;
  for (std::size_t i = from; i < to; ++i) {
    if (!entries_.contains(blocks[i].hash)) {
      transfer.blocks.push_back(blocks[i].hash);
    }
  }
  const std::uint64_t wanted = transfer.blocks.size();
  const std::uint64_t free = options_.blocks_max - entries_.size();
  const std::uint64_t excess = wanted > free ? wanted - free : 0;
  const std::vector<BlockHash> victims = Victims(excess, blocks.subspan(from, to - from));
  if (victims.size() < excess) {
    return 0;
  }
  if (!victims.empty()) {
    Change& gone = changes_.emplace_back();
    for (const BlockHash victim : victims) {
      Withdraw(victim, entries_.at(victim));
      entries_.erase(victim);
      gone.blocks.push_back({victim, {}});
    }
  }
  const TransferId id = ++latest_;
  for (std::size_t i = from; i < to; ++i) {
    const auto [entry, added] = entries_.try_emplace(blocks[i].hash);
    if (added) {
      entry->second.store = id;
      entry->second.position = i;
      entry->second.tokens_hash = blocks[i].tokens_hash;
      entry->second.parent = i > 0 ? std::optional(blocks[i - 1].hash) : std::nullopt;
      if (!tokens.empty()) {
        const auto own = tokens.subspan(i * options_.block_size, options_.block_size);
        entry->second.tokens.assign(own.begin(), own.end());
      }
    }
  }
  transfers_.emplace(id, std::move(transfer));
  prepared_.push_back(id);
  return id;
}

void HostTier::NameSources(TransferId store, std::vector<std::uint32_t> slots) {
  transfers_.at(store).sources = std::move(slots);
}

void HostTier::Queue(TransferId id, Transfer& transfer, Way& way, Nanoseconds at) {
  const double ns = way.ns_per_block * static_cast<double>(transfer.blocks.size());
  way.free_at = std::max(way.free_at, at + options_.latency) +
                Nanoseconds(std::llround(std::min(ns, kTransferNsMax)));
  transfer.ends_at = way.free_at;
  transfer.queued = true;
  ends_.insert({transfer.ends_at, transfer.load, id});
}

HostTier::TransferId HostTier::Load(std::span<const LogicalBlock> blocks,
                                    std::uint32_t owner,
                                    Nanoseconds at) {
  const TransferId id = ++latest_;
  Transfer& transfer = transfers_[id];
  transfer.load = true;
  transfer.owner = owner;
  for (const LogicalBlock& block : blocks) {
    Entry& entry = entries_.at(block.hash);
    UNDERSTUDY_ASSERT(entry.store == 0);
    if (entry.pins++ == 0) {
      Withdraw(block.hash, entry);
    }
    transfer.blocks.push_back(block.hash);
  }
  Queue(id, transfer, to_device_, at);
  return id;
}

void HostTier::CancelLoad(TransferId load) {
  const Transfer& transfer = transfers_.at(load);
  ends_.erase({transfer.ends_at, true, load});
  Unpin(transfer.blocks);
  transfers_.erase(load);
}

void HostTier::Unpin(const std::vector<BlockHash>& blocks) {
  ++moment_;
  for (const BlockHash block : blocks) {
    Entry& entry = entries_.at(block);
    UNDERSTUDY_ASSERT(entry.pins > 0);
    if (--entry.pins == 0) {
      Offer(block, entry, moment_);
    }
  }
}

bool HostTier::Clear() {
  if (!order_.empty()) {
    Change& gone = changes_.emplace_back();
    for (const auto& [moment, block] : order_) {
      entries_.erase(block);
      gone.blocks.push_back({block, {}});
    }
    order_.clear();
  }
  return entries_.empty();
}

std::optional<Nanoseconds> HostTier::EndOf(TransferId id) const {
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || !transfer->second.queued) {
    return std::nullopt;
  }
  return transfer->second.ends_at;
}

std::optional<Nanoseconds> HostTier::NextEnd() const {
  if (ends_.empty()) {
    return std::nullopt;
  }
  return ends_.begin()->at;
}

std::optional<HostTier::Done> HostTier::Complete(Nanoseconds at) {
  if (ends_.empty() || ends_.begin()->at > at) {
    return std::nullopt;
  }
  const TransferId id = ends_.begin()->id;
  ends_.erase(ends_.begin());
  const Transfer transfer = std::move(transfers_.at(id));
  transfers_.erase(id);
  if (transfer.load) {
    Unpin(transfer.blocks);
    return Done{id, true, transfer.owner};
  }
  ++moment_;
  for (const BlockHash block : transfer.blocks) {
    Entry& entry = entries_.at(block);
    entry.store = 0;
    Offer(block, entry, moment_);
  }
  TellStored(transfer.blocks);
  return Done{id, false, 0};
}

/// Runs of blocks that follow each other go together.
void HostTier::TellStored(const std::vector<BlockHash>& blocks) {
  bool joins = false;
  for (const BlockHash block : blocks) {
    Entry& entry = entries_.at(block);
    joins = joins && entry.parent == changes_.back().blocks.back().block_hash;
    if (!joins) {
      changes_.push_back({true, entry.parent, entry.position, {}, {}});
      joins = true;
    }
    Change& change = changes_.back();
    change.blocks.push_back({block, entry.tokens_hash});
    change.tokens.insert(change.tokens.end(), entry.tokens.begin(), entry.tokens.end());
    entry.tokens = {};
  }
}

std::vector<BlockHash> HostTier::KnownBlocks() const {
  std::vector<BlockHash> blocks;
  for (const auto& [block, entry] : entries_) {
    if (entry.store == 0) {
      blocks.push_back(block);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

std::string HostTier::CheckConsistency() const {
  std::size_t idle = 0;
  for (const auto& [block, entry] : entries_) {
    const bool victim = entry.store == 0 && entry.pins == 0;
    idle += victim ? 1U : 0U;
    if (victim != order_.contains({entry.used, block})) {
      return "a host block is a victim that must not be one, or the reverse";
    }
    if (entry.store != 0 && !transfers_.contains(entry.store)) {
      return "a host block waits for a transfer that is over";
    }
  }
  if (idle != order_.size() || entries_.size() > options_.blocks_max) {
    return "the host's blocks are counted wrong";
  }
  return {};
}

}  // namespace understudy::mocker
