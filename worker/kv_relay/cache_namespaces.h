// Which cache salt each block was stored under, so that its children inherit it.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/transport/kv_batch.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// Only salted blocks are kept. An unknown parent counts as one without a salt: who joins late
/// cannot tell. Not thread-safe. Source: events.md 1.5 (1.6 only).
class CacheNamespaces {
 public:
  /// Blocks remembered, all ranks together (about 100 bytes each); the salt of further ones is used
  /// for themselves and not inherited.
  static constexpr std::size_t kBlocksMax = 1U << 20;

  /// `salt` of a stored event, inherited from its parent when it is empty. False: the parent was
  /// stored under two different salts, so that nobody knows what this event's tokens hash to.
  [[nodiscard]] bool OnStored(const transport::EngineKvStored& event,
                              DpRank rank,
                              std::string& salt);
  void OnRemoved(const transport::EngineKvRemoved& event, DpRank rank);
  void OnCleared(DpRank rank);
  void Forget() { blocks_.clear(); }

  /// Salted blocks that found no room.
  [[nodiscard]] std::uint64_t overflows() const { return overflows_; }

 private:
  struct Key {
    DpRank rank{};
    BlockHash hash{};
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15U;
      return (Value(key.hash) ^ (Value(key.rank) * kMix)) * kMix;
    }
  };
  /// Shared by all blocks of a chain; null: ambiguous until the rank is cleared.
  using Salt = std::shared_ptr<const std::string>;

  [[nodiscard]] Salt Share(const transport::EngineKvStored& event,
                           DpRank rank,
                           const std::string& salt) const;

  std::unordered_map<Key, Salt, KeyHash> blocks_;
  std::uint64_t overflows_ = 0;
};

/// The salt of the event itself: its own field (empty text = none), else the marker
/// `dynamo-cache-salt:` among the extra keys of the first block.
[[nodiscard]] std::string SaltOf(const transport::EngineKvStored& event);

}  // namespace understudy::worker
