#include "worker/kv_relay/event_filter.h"

#include <algorithm>

namespace understudy::worker {
namespace {

constexpr std::array<std::string_view, kKvFilterReasons> kLabels = {
    "ignored_event",
    "non_main_attention_kind",
    "unknown_kind",
    "non_main_attention_group",
    "unlearned_group_idx",
    "non_local_locality",
    "unknown_medium",
    "unsupported_ownership",
    "unknown_ownership",
    "ambiguous_cache_namespace",
};

std::uint64_t GroupKey(DpRank rank, std::uint32_t group) {
  return std::uint64_t{Value(rank)} << 32U | group;
}

bool IsLower(transport::StorageTier tier) {
  return tier == transport::StorageTier::kDisk || tier == transport::StorageTier::kExternal;
}

}  // namespace

std::string_view FilterReasonLabel(KvFilterReason reason) {
  return kLabels[static_cast<std::size_t>(reason)];
}

KvEventFilter::Kind KvEventFilter::KindOf(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kMainKinds = {
      "full_attention", "mla_attention", "sink_full_attention"};
  static constexpr std::array<std::string_view, 6> kOtherKinds = {"sliding_window",
                                                                  "sliding_window_mla",
                                                                  "mamba",
                                                                  "chunked_local_attention",
                                                                  "encoder_only_attention",
                                                                  "cross_attention"};
  if (std::find(kMainKinds.begin(), kMainKinds.end(), name) != kMainKinds.end()) {
    return Kind::kMain;
  }
  const bool known = std::find(kOtherKinds.begin(), kOtherKinds.end(), name) != kOtherKinds.end();
  return known ? Kind::kOther : Kind::kUnknown;
}

std::optional<KvFilterReason> KvEventFilter::CheckGroup(const transport::KvScope& scope,
                                                        DpRank rank) const {
  if (scope.spec_kind) {
    switch (KindOf(*scope.spec_kind)) {
      case Kind::kMain:
        return std::nullopt;
      case Kind::kOther:
        return KvFilterReason::kNonMainAttentionKind;
      case Kind::kUnknown:
        return KvFilterReason::kUnknownKind;
    }
  }
  if (!scope.group_idx) {
    return std::nullopt;
  }
  const auto learned = groups_.find(GroupKey(rank, *scope.group_idx));
  if (learned == groups_.end()) {
    return *scope.group_idx == 0 ? std::nullopt : std::optional(KvFilterReason::kUnlearnedGroupIdx);
  }
  switch (learned->second) {
    case Kind::kMain:
      break;
    case Kind::kOther:
      return KvFilterReason::kNonMainAttentionGroup;
    case Kind::kUnknown:
      return KvFilterReason::kUnknownKind;
  }
  return std::nullopt;
}

void KvEventFilter::Learn(std::uint64_t group, Kind kind) {
  const auto known = groups_.find(group);
  if (known != groups_.end()) {
    known->second = kind;
  } else if (groups_.size() < kGroupsMax) {
    groups_.emplace(group, kind);
  }
}

std::optional<KvFilterReason> KvEventFilter::Check(const transport::KvScope& scope,
                                                   DpRank rank,
                                                   bool is_stored,
                                                   transport::StorageTier& tier) {
  if (scope.ownership) {
    return *scope.ownership == "kvcr" ? KvFilterReason::kUnsupportedOwnership
                                      : KvFilterReason::kUnknownOwnership;
  }
  if (scope.locality && *scope.locality != "LOCAL") {
    return KvFilterReason::kNonLocalLocality;
  }
  const auto known_tier = TierOfMedium(scope.medium.value_or(std::string()), rules_);
  if (!known_tier) {
    return KvFilterReason::kUnknownMedium;
  }
  tier = *known_tier;
  if (is_stored && scope.group_idx && scope.spec_kind) {
    Learn(GroupKey(rank, *scope.group_idx), KindOf(*scope.spec_kind));
  }
  if (rules_.lower_tiers_pass && IsLower(tier)) {
    return std::nullopt;
  }
  return CheckGroup(scope, rank);
}

std::optional<KvFilterReason> KvEventFilter::Check(const transport::EngineKvCleared& event) {
  return event.ownership == "kvcr" ? std::optional(KvFilterReason::kUnsupportedOwnership)
                                   : std::nullopt;
}

}  // namespace understudy::worker
