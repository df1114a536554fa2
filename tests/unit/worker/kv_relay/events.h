// Short ways to write router events in tests.
#pragma once

#include "understudy/transport/router_event.h"

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace understudy::worker {

using transport::RouterEvent;
using transport::StorageTier;

/// Blocks whose tokens hash is 1000 + their block hash.
inline std::vector<transport::RouterBlock> Blocks(std::initializer_list<std::uint64_t> hashes) {
  std::vector<transport::RouterBlock> blocks;
  for (const auto hash : hashes) {
    blocks.push_back({BlockHash{hash}, TokensHash{1000 + hash}});
  }
  return blocks;
}

inline RouterEvent Stored(std::optional<std::uint64_t> parent,
                          std::initializer_list<std::uint64_t> hashes,
                          StorageTier tier = StorageTier::kDevice) {
  RouterEvent event;
  event.tier = tier;
  if (parent) {
    event.parent = BlockHash{*parent};
  }
  event.blocks = Blocks(hashes);
  return event;
}

inline RouterEvent Removed(std::initializer_list<std::uint64_t> hashes,
                           StorageTier tier = StorageTier::kDevice) {
  RouterEvent event;
  event.kind = RouterEvent::Kind::kRemoved;
  event.tier = tier;
  for (const auto hash : hashes) {
    event.blocks.push_back({BlockHash{hash}, TokensHash{}});
  }
  return event;
}

inline RouterEvent Cleared() {
  RouterEvent event;
  event.kind = RouterEvent::Kind::kCleared;
  return event;
}

inline RouterEvent WithId(RouterEvent event, std::uint64_t id) {
  event.event_id = id;
  return event;
}

inline std::vector<std::uint64_t> HashesOf(const RouterEvent& event) {
  std::vector<std::uint64_t> hashes;
  for (const auto& block : event.blocks) {
    hashes.push_back(Value(block.block_hash));
  }
  return hashes;
}

}  // namespace understudy::worker
