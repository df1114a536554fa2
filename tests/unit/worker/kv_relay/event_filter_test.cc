#include "worker/kv_relay/event_filter.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::KvScope;
using transport::StorageTier;
using Reason = std::optional<KvFilterReason>;

KvScope Group(std::optional<std::uint32_t> group, std::optional<std::string> kind = std::nullopt) {
  KvScope scope;
  scope.group_idx = group;
  scope.spec_kind = std::move(kind);
  return scope;
}

KvScope Medium(const std::string& medium) {
  KvScope scope;
  scope.medium = medium;
  return scope;
}

class Filter : public ::testing::Test {
 protected:
  Reason Check(const KvScope& scope, bool is_stored = true, DpRank rank = DpRank{0}) {
    return filter_.Check(scope, rank, is_stored, tier_);
  }
  KvEventFilter filter_{kKvConversion16};
  StorageTier tier_ = StorageTier::kDevice;
};

TEST_F(Filter, OnlyMainAttentionPasses) {
  for (const char* kind : {"full_attention", "mla_attention", "sink_full_attention"}) {
    EXPECT_FALSE(Check(Group(7, kind)).has_value()) << kind;
  }
  for (const char* kind : {"sliding_window",
                           "sliding_window_mla",
                           "mamba",
                           "chunked_local_attention",
                           "encoder_only_attention",
                           "cross_attention"}) {
    EXPECT_EQ(Check(Group(7, kind)), KvFilterReason::kNonMainAttentionKind) << kind;
  }
  EXPECT_EQ(Check(Group(7, "brand_new")), KvFilterReason::kUnknownKind);
  EXPECT_EQ(Check(Group({}, "")), KvFilterReason::kUnknownKind);
  EXPECT_FALSE(Check(KvScope{}).has_value());
}

TEST_F(Filter, GroupsAreLearnedFromStoredEventsPerRank) {
  EXPECT_EQ(Check(Group(1)), KvFilterReason::kUnlearnedGroupIdx);
  EXPECT_FALSE(Check(Group(0)).has_value());
  Check(Group(1, "full_attention"), false);
  EXPECT_EQ(Check(Group(1)), KvFilterReason::kUnlearnedGroupIdx) << "a removal teaches nothing";
  Check(Group(1, "full_attention"));
  Check(Group(0, "mamba"));
  Check(Group(2, "brand_new"));
  EXPECT_FALSE(Check(Group(1), false).has_value());
  EXPECT_EQ(Check(Group(0)), KvFilterReason::kNonMainAttentionGroup);
  EXPECT_EQ(Check(Group(2)), KvFilterReason::kUnknownKind);
  EXPECT_EQ(Check(Group(1), true, DpRank{1}), KvFilterReason::kUnlearnedGroupIdx);
  filter_.Forget();
  EXPECT_EQ(Check(Group(1)), KvFilterReason::kUnlearnedGroupIdx);
}

TEST_F(Filter, RemembersABoundedNumberOfGroups) {
  for (std::uint32_t group = 0; group < KvEventFilter::kGroupsMax; ++group) {
    Check(Group(group, "full_attention"));
  }
  Check(Group(1'000'000, "full_attention"));
  EXPECT_EQ(Check(Group(1'000'000)), KvFilterReason::kUnlearnedGroupIdx);
  Check(Group(7, "mamba"));
  EXPECT_EQ(Check(Group(7)), KvFilterReason::kNonMainAttentionGroup) << "known ones still change";
}

TEST_F(Filter, OwnershipAndLocalityComeFirst) {
  KvScope scope = Group(1, "mamba");
  scope.locality = "LOCAL";
  EXPECT_EQ(Check(scope), KvFilterReason::kNonMainAttentionKind);
  scope.locality = "REMOTE";
  EXPECT_EQ(Check(scope), KvFilterReason::kNonLocalLocality);
  scope.ownership = "kvcr";
  EXPECT_EQ(Check(scope), KvFilterReason::kUnsupportedOwnership);
  scope.ownership = "other";
  EXPECT_EQ(Check(scope), KvFilterReason::kUnknownOwnership);
}

TEST_F(Filter, AClearOfSomeoneElsesBlocksIsDroppedAnyOtherPasses) {
  EXPECT_FALSE(KvEventFilter::Check(transport::EngineKvCleared{}).has_value());
  EXPECT_FALSE(KvEventFilter::Check(transport::EngineKvCleared{"x"}).has_value());
  EXPECT_EQ(KvEventFilter::Check(transport::EngineKvCleared{"kvcr"}),
            KvFilterReason::kUnsupportedOwnership);
}

TEST_F(Filter, LowerTiersPassWhateverTheirGroup) {
  KvScope scope = Group(5);
  scope.medium = "DISK";
  EXPECT_FALSE(Check(scope).has_value());
  EXPECT_EQ(tier_, StorageTier::kDisk);
  scope.medium = "CPU";
  EXPECT_EQ(Check(scope), KvFilterReason::kUnlearnedGroupIdx);
  KvEventFilter filter13(kKvConversion13);
  scope.medium = "DISK";
  EXPECT_EQ(filter13.Check(scope, DpRank{0}, true, tier_), KvFilterReason::kUnlearnedGroupIdx);
}

TEST_F(Filter, AnUnknownMediumIsDroppedBy16AndTheDeviceFor13) {
  EXPECT_EQ(Check(Medium("FS")), KvFilterReason::kUnknownMedium);
  EXPECT_FALSE(Check(Medium("STORAGE")).has_value());
  EXPECT_EQ(tier_, StorageTier::kDisk);
  EXPECT_EQ(TierOfMedium("FS", kKvConversion13), StorageTier::kDevice);
  EXPECT_EQ(TierOfMedium("STORAGE", kKvConversion13), StorageTier::kDevice);
  for (const char* medium : {"EXTERNAL", "NETWORK", "REMOTE", "SHARED"}) {
    EXPECT_EQ(TierOfMedium(medium, kKvConversion13), StorageTier::kExternal) << medium;
  }
}

TEST_F(Filter, WhatWeWriteForATierIsReadAsThatTier) {
  for (const auto tier : {StorageTier::kDevice,
                          StorageTier::kHostPinned,
                          StorageTier::kDisk,
                          StorageTier::kExternal}) {
    EXPECT_EQ(TierOfMedium(MediumOfTier(tier), kKvConversion13), tier);
    EXPECT_EQ(TierOfMedium(MediumOfTier(tier), kKvConversion16), tier);
  }
}

TEST_F(Filter, LabelsAreThoseOfTheMetric) {
  EXPECT_EQ(FilterReasonLabel(KvFilterReason::kIgnoredEvent), "ignored_event");
  EXPECT_EQ(FilterReasonLabel(KvFilterReason::kAmbiguousCacheNamespace),
            "ambiguous_cache_namespace");
}

}  // namespace
}  // namespace understudy::worker
