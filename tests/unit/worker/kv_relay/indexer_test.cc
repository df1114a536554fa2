#include "worker/kv_relay/indexer.h"

#include "tests/unit/worker/kv_relay/events.h"

#include <utility>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

class IndexerTest : public ::testing::Test {
 protected:
  bool Take(RouterEvent event) {
    if (!indexer_.Admit(event)) {
      return false;
    }
    event.event_id = indexer_.last_id() + 1;
    indexer_.Record(event);
    last_ = std::move(event);
    return true;
  }
  template <class T>
  T PlanFor(std::optional<std::uint64_t> start, std::optional<std::uint64_t> end = {}) {
    const auto plan = indexer_.PlanFor(start, end);
    EXPECT_TRUE(std::holds_alternative<T>(plan)) << plan.index();
    const T* found = std::get_if<T>(&plan);
    return found != nullptr ? *found : T{};
  }

  Indexer indexer_;
  RouterEvent last_;
};

TEST_F(IndexerTest, PassesARemovalOnlyWithTheLastReference) {
  EXPECT_TRUE(Take(Stored({}, {1, 2})));
  EXPECT_TRUE(Take(Stored({}, {1})));
  EXPECT_TRUE(Take(Removed({1, 2})));
  EXPECT_EQ(HashesOf(last_), (std::vector<std::uint64_t>{2}));
  EXPECT_TRUE(Take(Removed({1})));
  EXPECT_EQ(indexer_.blocks(), 0U);
  EXPECT_EQ(indexer_.last_id(), 4U);
}

TEST_F(IndexerTest, ARemovalOfWhatOthersHoldUsesNoId) {
  EXPECT_TRUE(Take(Stored({}, {1})));
  EXPECT_TRUE(Take(Stored({}, {1})));
  EXPECT_FALSE(Take(Removed({1})));
  EXPECT_EQ(indexer_.last_id(), 2U);
}

TEST_F(IndexerTest, CountsTiersByThemselves) {
  EXPECT_TRUE(Take(Stored({}, {1})));
  EXPECT_TRUE(Take(Stored({}, {1}, StorageTier::kHostPinned)));
  EXPECT_TRUE(Take(Removed({1}, StorageTier::kHostPinned)));
  EXPECT_TRUE(Take(Removed({1})));
}

TEST_F(IndexerTest, AClearForgetsAllTiers) {
  EXPECT_TRUE(Take(Stored({}, {1, 2})));
  EXPECT_TRUE(Take(Stored({}, {3}, StorageTier::kDisk)));
  EXPECT_TRUE(Take(Cleared()));
  EXPECT_EQ(indexer_.blocks(), 0U);
}

TEST_F(IndexerTest, AnswersWithEventsFromTheRing) {
  for (std::uint64_t i = 1; i <= 6; ++i) {
    EXPECT_TRUE(Take(Stored({}, {i})));
  }
  const auto range = PlanFor<Indexer::Range>(4, 5);
  EXPECT_EQ(range.first, 4U);
  EXPECT_EQ(range.last, 6U);  // the end is no cut-off
}

TEST_F(IndexerTest, LeavesOutWhatLiesBeforeAClear) {
  EXPECT_TRUE(Take(Stored({}, {1})));
  EXPECT_TRUE(Take(Stored({}, {2})));
  EXPECT_TRUE(Take(Cleared()));
  EXPECT_TRUE(Take(Stored({}, {3})));
  EXPECT_EQ(PlanFor<Indexer::Range>(1).first, 3U);
  EXPECT_EQ(PlanFor<Indexer::Range>(4).first, 4U);
}

TEST_F(IndexerTest, DumpsWithoutAStartOrBeforeTheRing) {
  PlanFor<Indexer::Dump>(std::nullopt);
  PlanFor<Indexer::Dump>(5);  // nothing was published yet
  EXPECT_TRUE(Take(Stored({}, {1})));
  PlanFor<Indexer::Dump>(std::nullopt);
  PlanFor<Indexer::Dump>(0);
  PlanFor<Indexer::Range>(1);
}

TEST_F(IndexerTest, RefusesRangesThatAreTooNewOrBackwards) {
  EXPECT_TRUE(Take(Stored({}, {1})));
  const auto too_new = PlanFor<Indexer::TooNew>(7);
  EXPECT_EQ(too_new.requested_end, 1U);
  EXPECT_EQ(too_new.newest_available, 1U);
  EXPECT_EQ(PlanFor<Indexer::TooNew>(7, 9).requested_end, 9U);
  const auto invalid = PlanFor<Indexer::InvalidRange>(3, 2);
  EXPECT_EQ(invalid.start_id, 3U);
  EXPECT_EQ(invalid.end_id, 2U);
}

TEST(EventRing, KeepsTheNewestEvents) {
  EventRing ring;
  EXPECT_EQ(ring.last_id(), 0U);
  for (std::uint64_t id = 1; id <= EventRing::kEventsMax + 10; ++id) {
    ring.Push(WithId(Stored(id == 1 ? std::nullopt : std::optional(id - 1), {id}), id));
  }
  EXPECT_EQ(ring.first_id(), 11U);
  EXPECT_EQ(ring.last_id(), EventRing::kEventsMax + 10);
  RouterEvent event;
  ring.Read(11, event);
  EXPECT_EQ(event, WithId(Stored(10, {11}), 11));
}

TEST(EventRing, GivesBackRareFieldsToo) {
  EventRing ring;
  RouterEvent event = WithId(Stored({}, {1, 2}, StorageTier::kDisk), 1);
  event.session_id = "s";
  event.start_position = 7;
  event.mm_infos.push_back({1, {{9, {{0, 4}}}}});
  ring.Push(event);
  ring.Push(WithId(Removed({1}), 2));
  RouterEvent again = Stored(3, {4});
  ring.Read(1, again);
  EXPECT_EQ(again, event);
  ring.Read(2, again);
  EXPECT_EQ(again, WithId(Removed({1}), 2));
}

TEST(EventRing, DropsOldOnesEarlyWhenTheyAreLarge) {
  EventRing ring;
  RouterEvent event = Stored({}, {});
  event.blocks.resize(EventRing::kBlocksMax / 2 + 1);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    event.event_id = id;
    ring.Push(event);
  }
  EXPECT_EQ(ring.first_id(), 5U);
  EXPECT_EQ(ring.last_id(), 5U);
}

}  // namespace
}  // namespace understudy::worker
