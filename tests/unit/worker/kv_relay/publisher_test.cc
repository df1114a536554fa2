#include "worker/kv_relay/publisher.h"

#include "tests/unit/worker/kv_relay/events.h"

#include <map>
#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

constexpr std::size_t kAnySize = 1 << 20;
using Ids = std::vector<std::uint64_t>;

class PublisherTest : public ::testing::Test {
 protected:
  void Make(BatchingOptions batching = {}) {
    publisher_.emplace(RankPublisher::Options{WorkerId{77}, DpRank{2}, batching, true}, now_);
  }
  void Take(std::vector<RouterEvent> unit, std::size_t bytes_max = kAnySize) {
    for (auto& event : unit) {
      event.event_id = raw_++;
    }
    publisher_->Take(std::move(unit), now_, bytes_max, Keep());
  }
  void Flush() { publisher_->Flush(now_, kAnySize, Keep()); }
  RankPublisher::Sink Keep() {
    return [this](const RouterEvent& event) { published_.push_back(event); };
  }
  void Pass(int milliseconds) { now_ += std::chrono::milliseconds(milliseconds); }

  TimePoint now_{};
  std::uint64_t raw_ = 0;
  std::optional<RankPublisher> publisher_;
  std::vector<RouterEvent> published_;
};

TEST_F(PublisherTest, NumbersFromOneAndNamesWorkerAndRank) {
  Make();
  Take({Stored({}, {1}), Removed({1}), Cleared()});
  ASSERT_EQ(published_.size(), 3U);
  for (std::size_t i = 0; i < published_.size(); ++i) {
    EXPECT_EQ(published_[i].event_id, i + 1);
    EXPECT_EQ(published_[i].worker_id, WorkerId{77});
    EXPECT_EQ(published_[i].dp_rank, DpRank{2});
  }
}

TEST_F(PublisherTest, SendsEachEventByItselfWithoutBatching) {
  Make();
  Take({Stored({}, {1}), Stored(1, {2})});
  EXPECT_EQ(published_.size(), 2U);
  EXPECT_FALSE(publisher_->due().has_value());
}

TEST_F(PublisherTest, StoreStoreRemoveRemoveGivesThreeEvents) {
  Make();
  Take({Stored({}, {1}), Stored({}, {1}), Removed({1}), Removed({1})});
  ASSERT_EQ(published_.size(), 3U);
  EXPECT_EQ(published_[2], (WithId(published_[2], 3)));
  EXPECT_EQ(published_[2].kind, RouterEvent::Kind::kRemoved);
}

TEST_F(PublisherTest, MergesRowsThatFollowEachOtherInAUnit) {
  Make({.merge_units = true});
  Take({Stored({}, {1}), Stored(1, {2, 3}), Stored({}, {9})});
  ASSERT_EQ(published_.size(), 2U);
  EXPECT_EQ(HashesOf(published_[0]), (Ids{1, 2, 3}));
  EXPECT_EQ(HashesOf(published_[1]), (Ids{9}));
  Take({Stored(9, {10})});
  EXPECT_EQ(published_.size(), 3U);  // a unit of its own
}

TEST_F(PublisherTest, TheFirstEventAfterAQuietWindowGoesOutAlone) {
  Make({.window = std::chrono::milliseconds(10)});
  Pass(10);
  Take({Removed({1})});
  EXPECT_EQ(published_.size(), 1U);
  Pass(1);
  Take({Removed({2})});
  Take({Removed({3})});
  EXPECT_EQ(published_.size(), 1U);
  EXPECT_EQ(publisher_->due(), now_ + std::chrono::milliseconds(9));
  Pass(9);
  Flush();
  ASSERT_EQ(published_.size(), 2U);
  EXPECT_EQ(HashesOf(published_[1]), (Ids{2, 3}));
}

TEST_F(PublisherTest, AWindowEndsAtAnotherKindTierOrABrokenChain) {
  Make({.window = std::chrono::milliseconds(10)});
  Take({Stored({}, {1}), Stored(1, {2}), Stored(1, {5})});
  Take({Removed({2})});
  Take({Removed({5}, StorageTier::kDisk)});
  Take({Cleared()});
  std::vector<Ids> rows;
  for (const auto& event : published_) {
    rows.push_back(HashesOf(event));
  }
  EXPECT_EQ(rows, (std::vector<Ids>{{1, 2}, {5}, {2}, {5}, {}}));
}

TEST_F(PublisherTest, AWindowEndsWhenTooManyBlocksArePending) {
  Make({.window = std::chrono::milliseconds(10), .blocks_max = 3});
  Take({Removed({1, 2, 3})});
  EXPECT_TRUE(published_.empty());
  Take({Removed({4})});
  ASSERT_EQ(published_.size(), 1U);
  EXPECT_EQ(published_[0].blocks.size(), 4U);
}

TEST_F(PublisherTest, MergingMovesMultimodalInfosAlong) {
  Make({.merge_units = true});
  RouterEvent second = Stored(2, {3, 4});
  second.mm_infos.push_back({1, {{99, {}}}});
  Take({Stored({}, {1, 2}), second});
  ASSERT_EQ(published_.size(), 1U);
  ASSERT_EQ(published_[0].mm_infos.size(), 1U);
  EXPECT_EQ(published_[0].mm_infos[0].block, 3U);
}

TEST_F(PublisherTest, AStoredEventWithoutBlocksStillUsesAnId) {
  Make();
  Take({Stored({}, {}), Stored({}, {1})});
  ASSERT_EQ(published_.size(), 2U);
  EXPECT_EQ(published_[1].event_id, 2U);
}

TEST_F(PublisherTest, CountsEventsThatNeverCame) {
  Make();
  Take({Stored({}, {1})});
  raw_ = 4;
  Take({Stored({}, {2})});
  EXPECT_EQ(publisher_->lost(), 3U);
  EXPECT_EQ(published_.back().event_id, 2U);
}

TEST_F(PublisherTest, SplitsWhatIsLongerThanAMessage) {
  Make();
  RouterEvent event = Stored(5, {});
  for (std::uint64_t i = 0; i < 1000; ++i) {
    event.blocks.push_back({BlockHash{i + 100}, TokensHash{i}});
  }
  event.mm_infos.push_back({999, {{1, {}}}});
  constexpr std::size_t kBytesMax = 20'000;
  Take({event}, kBytesMax);
  ASSERT_GT(published_.size(), 4U);
  std::vector<transport::RouterBlock> all;
  auto parent = event.parent;
  for (std::size_t i = 0; i < published_.size(); ++i) {
    const RouterEvent& piece = published_[i];
    EXPECT_EQ(piece.event_id, i + 1);
    EXPECT_EQ(piece.parent, parent);
    parent = piece.blocks.back().block_hash;
    all.insert(all.end(), piece.blocks.begin(), piece.blocks.end());
    std::string json;
    transport::AppendRouterEventJson(json, piece, transport::kRouterEventForm16);
    EXPECT_LE(json.size(), kBytesMax);
  }
  EXPECT_EQ(all, event.blocks);
  ASSERT_EQ(published_.back().mm_infos.size(), 1U);
  EXPECT_EQ(published_.back().mm_infos[0].block, published_.back().blocks.size() - 1);
}

class PublisherLoad : public ::testing::TestWithParam<std::uint32_t> {};

// The parameter is the seed. A router that applies the events in order holds what the engine holds.
TEST_P(PublisherLoad, TheEventsTellWhatTheEngineHolds) {
  std::mt19937 random(GetParam());
  BatchingOptions batching;
  batching.merge_units = random() % 2 == 0;
  batching.window = std::chrono::milliseconds(random() % 3 * 5);
  TimePoint now{};
  RankPublisher publisher({WorkerId{1}, DpRank{0}, batching, true}, now);
  std::map<std::uint64_t, int> engine;
  std::set<std::uint64_t> router;
  std::uint64_t next_id = 1;
  std::uint64_t raw = 0;
  const auto apply = [&](const RouterEvent& event) {
    EXPECT_EQ(event.event_id, next_id++);
    for (const auto& block : event.blocks) {
      if (event.kind == RouterEvent::Kind::kStored) {
        router.insert(Value(block.block_hash));
      } else {
        router.erase(Value(block.block_hash));
      }
    }
    if (event.kind == RouterEvent::Kind::kCleared) {
      router.clear();
    }
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<RouterEvent> unit;
    for (std::uint32_t i = 0; i < random() % 4; ++i) {
      const std::uint64_t hash = random() % 50;
      if (random() % 100 == 0) {
        unit.push_back(Cleared());
        engine.clear();
      } else if (random() % 2 == 0) {
        unit.push_back(Stored({}, {hash}));
        ++engine[hash];
      } else if (engine.count(hash) == 1) {
        unit.push_back(Removed({hash}));
        if (--engine[hash] == 0) {
          engine.erase(hash);
        }
      }
    }
    for (auto& event : unit) {
      event.event_id = raw++;
    }
    publisher.Take(std::move(unit), now, kAnySize, apply);
    now += std::chrono::milliseconds(random() % 4);
  }
  publisher.Flush(now, kAnySize, apply);
  std::set<std::uint64_t> held;
  for (const auto& [hash, refs] : engine) {
    held.insert(hash);
  }
  EXPECT_EQ(router, held);
  EXPECT_EQ(publisher.indexer().blocks(), held.size());
  EXPECT_EQ(publisher.lost(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PublisherLoad, ::testing::Range(0U, 50U));

}  // namespace
}  // namespace understudy::worker
