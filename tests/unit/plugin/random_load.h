// What property tests of ranks have in common.
#pragma once

#include "plugin/mocker/kv_cache/block_hash.h"
#include "plugin/mocker/scheduler/scheduler_config.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {

class RandomSource {
 public:
  explicit RandomSource(std::uint32_t seed) : engine_(seed) {}
  /// 0 .. below - 1.
  std::uint32_t Below(std::uint32_t below) { return static_cast<std::uint32_t>(engine_() % below); }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }

 private:
  std::mt19937 engine_;
};

/// Makes a Listener of the same block size hear the tokens.
inline SchedulerConfig NamingTokens(SchedulerConfig config) {
  config.kv_event_tokens = true;
  return config;
}

/// What a router knows from the events alone.
class Listener {
 public:
  /// Stored events must name their tokens, `block_size` a block; 0: none.
  explicit Listener(std::uint32_t block_size) : block_size_(block_size) {}

  void Hear(const engine::KvEvent& event) {
    EXPECT_EQ(event.event_id, next_id_++);
    std::set<BlockHash>& present = by_tier_[event.tier];
    if (event.kind == engine::KvEvent::Kind::kRemoved) {
      for (const engine::KvBlock& block : event.blocks) {
        EXPECT_EQ(present.erase(block.block_hash), 1U) << "removed a block that was not stored";
      }
      return;
    }
    // The host may have lost the block before: what it evicts has no order of prefixes.
    EXPECT_TRUE(!event.parent.has_value() || present.contains(*event.parent) ||
                event.tier == StorageTier::kHostPinned)
        << "stored after an unknown parent";
    for (const engine::KvBlock& block : event.blocks) {
      EXPECT_TRUE(present.insert(block.block_hash).second) << "stored twice";
    }
    CheckTokens(event);
  }
  [[nodiscard]] std::vector<BlockHash> blocks(StorageTier tier) const {
    const auto present = by_tier_.find(tier);
    return present == by_tier_.end()
               ? std::vector<BlockHash>{}
               : std::vector<BlockHash>(present->second.begin(), present->second.end());
  }

 private:
  void CheckTokens(const engine::KvEvent& event) const {
    ASSERT_EQ(event.tokens.size(), event.blocks.size() * block_size_);
    const std::span tokens(event.tokens);
    for (std::size_t i = 0; block_size_ > 0 && i < event.blocks.size(); ++i) {
      EXPECT_EQ(HashTokens(tokens.subspan(i * block_size_, block_size_)),
                event.blocks[i].tokens_hash);
    }
  }

  std::uint32_t block_size_;
  std::map<StorageTier, std::set<BlockHash>> by_tier_;
  std::uint64_t next_id_ = 0;
};

}  // namespace understudy::mocker
