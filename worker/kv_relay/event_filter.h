// Which of an engine's KV events describe what a router may count on.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/transport/kv_batch.h"
#include "worker/kv_relay/conversion_rules.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace understudy::worker {

/// Why an event does not reach the router. Labels of `kv_publisher_zmq_filtered_events_total`.
enum class KvFilterReason : std::uint8_t {
  kIgnoredEvent,
  kNonMainAttentionKind,
  kUnknownKind,
  kNonMainAttentionGroup,
  kUnlearnedGroupIdx,
  kNonLocalLocality,
  kUnknownMedium,
  kUnsupportedOwnership,
  kUnknownOwnership,
  kAmbiguousCacheNamespace,
};
inline constexpr std::size_t kKvFilterReasons = 10;
/// ignored_event, ...
[[nodiscard]] std::string_view FilterReasonLabel(KvFilterReason reason);

/// Keeps what the engine has said about its cache groups. Not thread-safe.
/// Source: events.md 1.5.
class KvEventFilter {
 public:
  /// Groups remembered; further ones are not (their events without a kind are then dropped).
  static constexpr std::size_t kGroupsMax = 4096;

  explicit KvEventFilter(const KvConversionRules& rules) : rules_(rules) {}

  /// nullopt: passes, and `tier` is set. A stored event that names both its group and the kind
  /// teaches them.
  [[nodiscard]] std::optional<KvFilterReason> Check(const transport::KvScope& scope,
                                                    DpRank rank,
                                                    bool is_stored,
                                                    transport::StorageTier& tier);
  /// A clear with an ownership we do not know clears: ghosts mislead, a missing block only costs.
  [[nodiscard]] static std::optional<KvFilterReason> Check(const transport::EngineKvCleared& event);

  /// The engine started anew: its groups may have changed.
  void Forget() { groups_.clear(); }

 private:
  enum class Kind : std::uint8_t { kMain, kOther, kUnknown };
  [[nodiscard]] static Kind KindOf(std::string_view name);
  void Learn(std::uint64_t group, Kind kind);
  [[nodiscard]] std::optional<KvFilterReason> CheckGroup(const transport::KvScope& scope,
                                                         DpRank rank) const;

  KvConversionRules rules_;
  std::unordered_map<std::uint64_t, Kind> groups_;  // key: rank << 32 | group
};

}  // namespace understudy::worker
