#include "worker/kv_relay/converter.h"

#include "understudy/transport/token_hash.h"
#include "worker/kv_relay/mm_keys.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EngineKvBatch;
using transport::EngineKvCleared;
using transport::EngineKvEvent;
using transport::EngineKvIgnored;
using transport::EngineKvRemoved;
using transport::EngineKvStored;
using transport::RouterEvent;
using transport::StorageTier;

constexpr std::uint32_t kBlockSize = 4;

/// `hashes` with tokens 1, 2, 3, ...
EngineKvStored Stored(std::vector<std::uint64_t> hashes,
                      std::optional<std::uint64_t> parent = std::nullopt) {
  EngineKvStored event;
  for (const std::uint64_t hash : hashes) {
    event.hashes.push_back(BlockHash{hash});
  }
  if (parent) {
    event.parent = BlockHash{*parent};
  }
  event.tokens.resize(hashes.size() * kBlockSize);
  std::iota(event.tokens.begin(), event.tokens.end(), 1U);
  event.block_size = kBlockSize;
  return event;
}

EngineKvRemoved Removed(std::uint64_t hash) {
  return {{}, {BlockHash{hash}}};
}

class Converter : public ::testing::Test {
 protected:
  explicit Converter(const KvConversionRules& rules = kKvConversion16) {
    options_.worker_id = WorkerId{1001};
    options_.dp_rank = DpRank{2};
    options_.block_size = kBlockSize;
    options_.rules = rules;
    Renew();
  }
  void Renew() { converter_.emplace(options_); }

  std::vector<RouterEvent> Convert(std::vector<EngineKvEvent> events,
                                   std::optional<std::uint32_t> rank = std::nullopt) {
    EngineKvBatch batch;
    batch.events = std::move(events);
    batch.dp_rank = rank;
    std::vector<RouterEvent> out;
    converter_->Convert(batch, out);
    return out;
  }
  std::uint64_t Filtered(KvEventType type, KvFilterReason reason) {
    return converter_->counters()
        .filtered[static_cast<std::size_t>(type)][static_cast<std::size_t>(reason)];
  }

  KvEventConverter::Options options_;
  std::optional<KvEventConverter> converter_;
};

TEST_F(Converter, NumbersWhatPassesAndKeepsItsOrder) {
  const auto events =
      Convert({Stored({11}), EngineKvIgnored{}, Removed(11), EngineKvCleared{}, Stored({12}, 11)});
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].event_id, i);
    EXPECT_EQ(events[i].worker_id, WorkerId{1001});
  }
  EXPECT_EQ(events[1].kind, RouterEvent::Kind::kRemoved);
  EXPECT_EQ(events[2].kind, RouterEvent::Kind::kCleared);
  EXPECT_EQ(events[3].parent, BlockHash{11});
  EXPECT_EQ(Filtered(KvEventType::kIgnored, KvFilterReason::kIgnoredEvent), 1U);
  EXPECT_EQ(converter_->counters().received, (std::array<std::uint64_t, 4>{2, 1, 1, 1}));
  EXPECT_EQ(converter_->counters().accepted, (std::array<std::uint64_t, 4>{2, 1, 1, 0}));
}

TEST_F(Converter, ABatchWithoutARankIsOfTheSocketsRank) {
  EXPECT_EQ(Convert({Stored({11})})[0].dp_rank, DpRank{2});
  EXPECT_EQ(Convert({Stored({11})}, 5)[0].dp_rank, DpRank{5});
}

TEST_F(Converter, BlocksThatDoNotFitAreCutOff) {
  EngineKvStored short_of_tokens = Stored({11, 12});
  short_of_tokens.tokens.resize(6);
  const auto cut = Convert({short_of_tokens});
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].blocks.size(), 1U);
  EngineKvStored other_size = Stored({11});
  other_size.block_size = 8;
  EXPECT_TRUE(Convert({other_size}).at(0).blocks.empty());
  EXPECT_EQ(converter_->counters().blocks_cut, 2U);
  EXPECT_EQ(converter_->counters().empty_store_blocks, 1U);
}

TEST_F(Converter, AnEventThatNamesABlockTwiceIsDropped) {
  EXPECT_TRUE(Convert({Stored({11, 12, 11})}).empty());
  EXPECT_TRUE(Convert({Stored({11, 12}, 12)}).empty());
  EXPECT_EQ(converter_->counters().repeated_hash, 2U);
  EXPECT_EQ(Convert({Stored({11})}).at(0).event_id, 0U);
}

TEST_F(Converter, WindowsOfPairsOverlapByOneToken) {
  EngineKvStored event = Stored({11, 12});
  event.is_eagle = true;
  event.tokens.push_back(9);
  const auto events = Convert({event});
  EXPECT_EQ(events[0].blocks[0].tokens_hash, TokensHash{1914873892905420881U});
  EXPECT_EQ(events[0].blocks[1].tokens_hash, TokensHash{1929047464662796003U});
}

TEST_F(Converter, MediaOfBlocksThatWereCutOffAreCutOffToo) {
  EngineKvStored event = Stored({11, 12, 13});
  event.has_mm_infos = true;
  event.mm_infos = {{0, {{42, {{0, 2}}}}}, {2, {{43, {}}}}};
  event.tokens.resize(8);
  const auto events = Convert({event});
  ASSERT_EQ(events[0].blocks.size(), 2U);
  ASSERT_EQ(events[0].mm_infos.size(), 1U);
  EXPECT_EQ(events[0].mm_infos[0].block, 0U);
  EXPECT_EQ(events[0].blocks[0].tokens_hash, TokensHash{14000361058806882387U});
}

TEST_F(Converter, GivenMediaWinOverExtraKeys) {
  const std::string key = "0123456789abcdef" + std::string(48, '0');
  EngineKvStored event = Stored({11});
  event.extra_keys = {{0, key}, {0, key}};
  EXPECT_EQ(Convert({event})[0].mm_infos.at(0).objects.size(), 2U);
  event.has_mm_infos = true;
  EXPECT_TRUE(Convert({event})[0].mm_infos.empty());
}

TEST_F(Converter, RunsOfPlaceholdersBecomePadTokensOfTheirMedia) {
  options_.image_token_id = 99;
  Renew();
  EngineKvStored event = Stored({11, 12});
  event.tokens = {99, 99, 7, 99, 99, 8, 99, 9};
  event.has_mm_infos = true;
  event.mm_infos = {{0, {{41, {}}, {42, {}}}}, {1, {{43, {}}}}};
  const std::uint32_t a = transport::MmPadToken(41), b = transport::MmPadToken(42),
                      c = transport::MmPadToken(43);
  const std::vector<std::uint32_t> first{a, a, 7, b}, second{c, 8, c, 9};
  const auto events = Convert({event});
  EXPECT_EQ(events[0].blocks[0].tokens_hash, transport::HashWindow(first, {}, 1337));
  EXPECT_EQ(events[0].blocks[1].tokens_hash, transport::HashWindow(second, {}, 1337));
  EXPECT_EQ(events[0].mm_infos.size(), 2U);
}

TEST_F(Converter, ChildrenInheritTheSaltOfTheirParents) {
  EngineKvStored parent = Stored({11});
  parent.cache_salt = "tenant-a";
  EngineKvStored child = Stored({12}, 11);
  EngineKvStored grandchild = Stored({13}, 12);
  const auto events = Convert({parent, child, grandchild});
  for (const RouterEvent& event : events) {
    EXPECT_EQ(event.blocks[0].tokens_hash, TokensHash{5738685477468498325U});
  }
  EXPECT_NE(Convert({Stored({14}, 99)})[0].blocks[0].tokens_hash, events[0].blocks[0].tokens_hash);
}

TEST_F(Converter, ABlockStoredUnderTwoSaltsHasNoChildren) {
  EngineKvStored one = Stored({11});
  one.cache_salt = "a";
  EngineKvStored other = Stored({11});
  other.cache_salt = "b";
  EXPECT_EQ(Convert({one, other}).size(), 2U);
  EXPECT_TRUE(Convert({Stored({12}, 11)}).empty());
  EXPECT_EQ(Filtered(KvEventType::kStored, KvFilterReason::kAmbiguousCacheNamespace), 1U);
  EXPECT_EQ(Convert({Stored({12}, 11)}, 0).size(), 1U) << "another rank knows nothing of it";
  Convert({EngineKvCleared{}});
  EXPECT_EQ(Convert({Stored({12}, 11)}).size(), 1U);
}

TEST_F(Converter, ARemovedBlockHandsItsSaltOnNoMore) {
  EngineKvStored parent = Stored({11});
  parent.cache_salt = "a";
  Convert({parent, Removed(11)});
  EXPECT_EQ(Convert({Stored({12}, 11)})[0].blocks[0].tokens_hash,
            TokensHash{14643705804678351452U});
}

TEST_F(Converter, SaltsOfTheDiskAreNotInherited) {
  EngineKvStored parent = Stored({11});
  parent.cache_salt = "tenant-a";
  parent.scope.medium = "DISK";
  EXPECT_EQ(Convert({parent})[0].blocks[0].tokens_hash, TokensHash{5738685477468498325U});
  EXPECT_EQ(Convert({Stored({12}, 11)})[0].blocks[0].tokens_hash,
            TokensHash{14643705804678351452U});
}

TEST_F(Converter, ARestartClearsEveryRankThatWasToldAbout) {
  EngineKvStored group = Stored({11});
  group.scope.group_idx = 3;
  group.scope.spec_kind = "full_attention";
  EngineKvStored later = Stored({12});
  later.scope.group_idx = 3;
  EXPECT_EQ(Convert({group}, 0).size(), 1U);
  EXPECT_EQ(Convert({later}, 0).size(), 1U);
  Convert({Stored({11})}, 4);
  std::vector<RouterEvent> cleared;
  converter_->Restart(cleared);
  ASSERT_EQ(cleared.size(), 2U);
  EXPECT_EQ(cleared[0].kind, RouterEvent::Kind::kCleared);
  EXPECT_EQ(cleared[0].dp_rank, DpRank{0});
  EXPECT_EQ(cleared[1].dp_rank, DpRank{4});
  EXPECT_EQ(cleared[1].event_id, 4U);
  EXPECT_TRUE(Convert({later}, 0).empty()) << "groups are to be learned anew";
  cleared.clear();
  converter_->Restart(cleared);
  EXPECT_EQ(cleared.size(), 1U) << "only what was told about since";
}

TEST_F(Converter, NamesNoMoreRanksThanItsBound) {
  for (std::uint32_t rank = 0; rank < KvEventConverter::kRanksMax; ++rank) {
    ASSERT_EQ(Convert({Stored({11})}, rank).size(), 1U);
  }
  EXPECT_TRUE(Convert({Stored({11})}, 100'000).empty());
  EXPECT_EQ(converter_->counters().unreadable, 1U);
}

class Converter13 : public Converter {
 protected:
  Converter13() : Converter(kKvConversion13) {}
};

TEST_F(Converter13, KnowsNoSaltsAndNoSessions) {
  EngineKvStored event = Stored({11});
  event.cache_salt = "tenant-a";
  event.session_id = "s";
  const auto events = Convert({event});
  EXPECT_EQ(events[0].blocks[0].tokens_hash, TokensHash{14643705804678351452U});
  EXPECT_FALSE(events[0].session_id.has_value());
}

TEST(MmKeys, ReadsTheFirstSixteenDigits) {
  const std::string digest = "0123456789abcdef00112233445566778899aabbccddeefffedcba9876543210";
  const std::string padded = "0123456789ABCDEF" + std::string(48, '0');
  EXPECT_EQ(MmHashOfKey(digest, false), 0x0123456789abcdefU);
  EXPECT_FALSE(MmHashOfKey(digest, true).has_value());
  EXPECT_EQ(MmHashOfKey(padded, true), 0x0123456789abcdefU);
  EXPECT_FALSE(MmHashOfKey(padded.substr(1), false).has_value());
  EXPECT_FALSE(MmHashOfKey("g" + padded.substr(1), false).has_value());
}

TEST(MmKeys, GroupsByBlock) {
  const std::string a = "000000000000000a" + std::string(48, '0');
  const std::string b = "000000000000000b" + std::string(48, '0');
  const std::vector<transport::KvExtraKey> keys = {{0, "lora"}, {1, a}, {1, b}, {3, a}};
  EXPECT_EQ(MmInfosOfKeys(keys, true),
            (std::vector<transport::BlockMmInfo>{{1, {{10, {}}, {11, {}}}}, {3, {{10, {}}}}}));
}

}  // namespace
}  // namespace understudy::worker
