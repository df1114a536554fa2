// What property tests of ranks have in common.
#pragma once

#include "understudy/engine/types.h"

#include <cstdint>
#include <random>
#include <set>

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

/// What a router knows from the events alone.
class Listener {
 public:
  void Hear(const engine::KvEvent& event) {
    EXPECT_EQ(event.event_id, next_id_++);
    if (event.kind == engine::KvEvent::Kind::kRemoved) {
      for (const engine::KvBlock& block : event.blocks) {
        EXPECT_EQ(present_.erase(block.block_hash), 1U) << "removed a block that was not stored";
      }
      return;
    }
    EXPECT_TRUE(!event.parent.has_value() || present_.contains(*event.parent))
        << "stored after an unknown parent";
    for (const engine::KvBlock& block : event.blocks) {
      EXPECT_TRUE(present_.insert(block.block_hash).second) << "stored twice";
    }
  }
  [[nodiscard]] std::size_t size() const { return present_.size(); }

 private:
  std::set<BlockHash> present_;
  std::uint64_t next_id_ = 0;
};

}  // namespace understudy::mocker
