#include "worker/kv_relay/relay.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_loop.h"
#include "tests/fakes/manual_clock.h"
#include "tests/unit/worker/kv_relay/events.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EventScope;

class RelayTest : public ::testing::Test {
 protected:
  void Make(BatchingOptions batching = {}, std::uint32_t ranks = 2) {
    relay_.emplace(loop_, plane_, clock_, *metrics_, KvRelay::Options{batching, true});
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<KvOutput> outputs;
      for (const auto& [scope, form] :
           {std::pair{EventScope::kComponent, transport::kRouterEventForm13},
            std::pair{EventScope::kEndpoint, transport::kRouterEventForm16}}) {
        wires_.push_back(*plane_.Open({scope, {"ns", "backend", "generate"}, "kv-events", rank},
                                      transport::Delivery::kKept));
        outputs.push_back({wires_.back().get(), form, false});
      }
      relay_->AddRank(WorkerId{77}, DpRank{rank}, std::move(outputs));
    }
  }
  engine::KvEvent Event(std::uint32_t rank, std::vector<std::uint64_t> hashes, bool stored = true) {
    engine::KvEvent event;
    event.rank = RankIndex{rank};
    event.event_id = raw_[rank]++;
    event.kind = stored ? engine::KvEvent::Kind::kStored : engine::KvEvent::Kind::kRemoved;
    for (const auto hash : hashes) {
      event.blocks.push_back({BlockHash{hash}, TokensHash{1000 + hash}});
    }
    return event;
  }
  /// Events of each message in one release's form.
  std::vector<std::vector<RouterEvent>> Messages(EventScope scope) {
    std::vector<std::vector<RouterEvent>> messages;
    for (const auto& payload : plane_.Of("kv-events", scope)) {
      auto events = transport::DecodeRouterEvents(payload);
      EXPECT_TRUE(events.has_value());
      messages.push_back(*events);
    }
    return messages;
  }

  fakes::FakeLoop loop_;
  ManualClock clock_;
  fakes::FakeEventPlane plane_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  std::vector<std::unique_ptr<transport::EventPublisher>> wires_;
  std::optional<KvRelay> relay_;
  std::uint64_t raw_[2] = {0, 0};
};

TEST_F(RelayTest, WritesOneStreamInTheFormOfEachRelease) {
  Make();
  relay_->Take({Event(0, {1, 2}), Event(0, {1}, false)});
  const auto old = Messages(EventScope::kComponent);
  const auto newer = Messages(EventScope::kEndpoint);
  ASSERT_EQ(old.size(), 2U);  // a message each
  ASSERT_EQ(newer.size(), 1U);
  ASSERT_EQ(newer[0].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(old[i][0].event_id, i + 1);
    EXPECT_EQ(newer[0][i].event_id, i + 1);
    EXPECT_EQ(old[i][0].blocks, newer[0][i].blocks);
    EXPECT_EQ(old[i][0].worker_id, WorkerId{77});
    EXPECT_EQ(old[i][0].domain, transport::ResidencyDomain::kNone);
    EXPECT_EQ(newer[0][i].domain, transport::ResidencyDomain::kWorker);
  }
}

TEST_F(RelayTest, SaysTheTierOfTheBlocksAndCountsTheirReferencesInEach) {
  Make();
  const auto device = Event(0, {1});
  auto host = Event(0, {1});
  host.tier = StorageTier::kHostPinned;
  relay_->Take({device, host, Event(0, {1}, false)});
  for (const auto scope : {EventScope::kComponent, EventScope::kEndpoint}) {
    std::vector<std::pair<RouterEvent::Kind, StorageTier>> said;
    for (const auto& message : Messages(scope)) {
      for (const auto& event : message) {
        said.emplace_back(event.kind, event.tier);
      }
    }
    EXPECT_EQ(said,
              (std::vector<std::pair<RouterEvent::Kind, StorageTier>>{
                  {RouterEvent::Kind::kStored, StorageTier::kDevice},
                  {RouterEvent::Kind::kStored, StorageTier::kHostPinned},
                  {RouterEvent::Kind::kRemoved, StorageTier::kDevice}}));
  }
}

TEST_F(RelayTest, U17NumbersEachRankByItself) {
  Make();
  relay_->Take({Event(0, {1}), Event(1, {2}), Event(0, {3}), Event(1, {4})});
  std::map<std::uint32_t, std::vector<std::uint64_t>> ids;
  for (const auto& message : Messages(EventScope::kComponent)) {
    ids[Value(message[0].dp_rank)].push_back(message[0].event_id);
  }
  EXPECT_EQ(ids[0], (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(ids[1], (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(Messages(EventScope::kEndpoint).size(), 2U);  // a message per rank
}

TEST_F(RelayTest, CutsMessagesOf16AtTheirLimits) {
  Make();
  std::vector<engine::KvEvent> events;
  for (std::uint64_t i = 0; i < KvRelay::kEventsPerMessage + 2; ++i) {
    events.push_back(Event(0, {i}));
  }
  relay_->Take(std::move(events));
  auto messages = Messages(EventScope::kEndpoint);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].size(), KvRelay::kEventsPerMessage);

  std::vector<std::uint64_t> many(KvRelay::kBlocksPerMessage - 1);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = 10'000 + i;
  }
  relay_->Take({Event(0, many), Event(0, {1, 2}), Event(0, {3})});
  messages = Messages(EventScope::kEndpoint);
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[2].size(), 1U);
  EXPECT_EQ(messages[3].size(), 2U);
}

TEST_F(RelayTest, U19SplitsWhatTheServerWouldNotTake) {
  Make();
  plane_.payload_max = 10'000;
  std::vector<std::uint64_t> many(500);
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = i + 1;
  }
  relay_->Take({Event(0, many), Event(0, {9000})});
  for (const auto& message : plane_.published) {
    EXPECT_LE(message.payload.size(), plane_.payload_max);
  }
  std::uint64_t id = 0;
  std::size_t blocks = 0;
  for (const auto& message : Messages(EventScope::kEndpoint)) {
    for (const auto& event : message) {
      EXPECT_EQ(event.event_id, ++id);
      blocks += event.blocks.size();
    }
  }
  EXPECT_EQ(blocks, 501U);
}

TEST_F(RelayTest, AfterAReconnectTheNewestEventOfEachRankIsSaidAgain) {
  Make();
  relay_->Take({Event(0, {1}), Event(0, {2})});
  plane_.down = true;
  relay_->Take({Event(0, {3})});
  plane_.down = false;
  plane_.published.clear();
  relay_->SayNewestAgain();
  const auto old = Messages(EventScope::kComponent);
  ASSERT_EQ(old.size(), 1U);  // rank 1 has nothing to say
  EXPECT_EQ(old[0][0].event_id, 3U);
  EXPECT_EQ(HashesOf(old[0][0]), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(Messages(EventScope::kEndpoint).size(), 1U);
}

TEST_F(RelayTest, AWindowHoldsEventsBackUntilItsEnd) {
  Make({.window = std::chrono::milliseconds(10)});
  relay_->Take({Event(0, {1}, false), Event(0, {2}, false)});
  relay_->Take({Event(1, {3}, false)});
  EXPECT_TRUE(plane_.published.empty());
  clock_.Advance(std::chrono::milliseconds(10));
  loop_.Advance(std::chrono::milliseconds(10));
  const auto old = Messages(EventScope::kComponent);
  ASSERT_EQ(old.size(), 2U);
  EXPECT_EQ(HashesOf(old[0][0]), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(RelayTest, StopSendsWhatIsPendingAndNothingAfterwards) {
  Make({.window = std::chrono::milliseconds(10)});
  relay_->Take({Event(0, {1}, false)});
  relay_->Stop();
  EXPECT_EQ(Messages(EventScope::kComponent).size(), 1U);
  relay_->Take({Event(0, {2}, false)});
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(Messages(EventScope::kComponent).size(), 1U);
}

TEST_F(RelayTest, CountsEventsThatNeverCame) {
  Make();
  metrics_->AddEndpoint("ns", "backend", "generate", "4d");
  relay_->Take({Event(0, {1})});
  raw_[0] = 5;
  relay_->Take({Event(0, {2})});
  EXPECT_NE(
      metrics_->Scrape(0).find("dynamo_component_kv_publisher_engines_dropped_events_total{dynamo_"
                               "component=\"backend\",dynamo_namespace=\"ns\"} 4"),
      std::string::npos);
}

}  // namespace
}  // namespace understudy::worker
