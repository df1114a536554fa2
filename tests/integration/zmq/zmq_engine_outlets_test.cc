// The engine of this process through sockets of its own: what it says of each tier arrives at the
// event plane as it was said. Source: events.md 1.4, 1.7; M-026 to M-028.
#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/server_process.h"
#include "tests/integration/zmq/zmq_inbox.h"
#include "understudy/base/clock.h"
#include "understudy/transport/router_event.h"
#include "understudy/transport/token_hash.h"
#include "worker/kv_relay/engine_outlets.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EventScope;
using transport::RouterEvent;

constexpr std::uint32_t kBlockSize = 4;

class Outlets : public transport::ZmqTest {
 protected:
  Outlets() {
    Do([&] {
      std::vector<KvOutput> outputs;
      for (const auto& [scope, form] :
           {std::pair{EventScope::kComponent, transport::kRouterEventForm13},
            std::pair{EventScope::kEndpoint, transport::kRouterEventForm16}}) {
        publishers_.push_back(*plane_.Open({scope, {"ns", "backend", "generate"}, "kv-events", 1},
                                           transport::Delivery::kKept));
        outputs.push_back({publishers_.back().get(), form, false});
      }
      relay_.emplace(thread_.loop(), plane_, clock_, *metrics_, KvRelay::Options{{}, true});
      relay_->AddRank(WorkerId{7}, DpRank{0}, std::move(outputs));
      outlets_.emplace(
          thread_.loop(), context_, *relay_, EngineOutlets::Options{kBlockSize, kKvConversion16});
      outlets_->AddRank(WorkerId{7}, DpRank{0}, {fakes::FreePort().value(), std::nullopt});
    });
  }
  ~Outlets() override {
    Do([&] {
      outlets_.reset();
      relay_.reset();
    });
  }

  engine::KvEvent Event(std::uint64_t hash, StorageTier tier, bool stored = true) {
    engine::KvEvent event;
    event.event_id = next_event_id_++;
    event.kind = stored ? engine::KvEvent::Kind::kStored : engine::KvEvent::Kind::kRemoved;
    event.tier = tier;
    event.blocks = {{BlockHash{hash}, TokensHash{}}};
    if (stored) {
      event.tokens = {1, 2, 3, static_cast<std::uint32_t>(hash)};
    }
    return event;
  }
  void Say(std::vector<engine::KvEvent> events) {
    Do([&] { outlets_->Take(std::move(events)); });
  }
  std::vector<RouterEvent> Told(EventScope scope) {
    return Do([&] {
      std::vector<RouterEvent> all;
      for (const auto& payload : plane_.Of("kv-events", scope)) {
        const auto events = transport::DecodeRouterEvents(payload);
        EXPECT_TRUE(events.has_value());
        all.insert(all.end(), events->begin(), events->end());
      }
      return all;
    });
  }
  /// What is said before the subscription stands is lost: until the first one arrives.
  void Join() {
    transport::Until([&] { Say({Event(next_event_id_ + 1000, StorageTier::kDevice)}); },
                     [&] { return !Told(EventScope::kEndpoint).empty(); });
  }

  SteadyClock clock_;
  fakes::FakeEventPlane plane_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  std::vector<std::unique_ptr<transport::EventPublisher>> publishers_;
  std::optional<KvRelay> relay_;
  std::optional<EngineOutlets> outlets_;
  std::uint64_t next_event_id_ = 0;
};

TEST_F(Outlets, TellTheTierOfEachEventInBothForms) {
  Join();
  const std::vector<StorageTier> tiers = {
      StorageTier::kDevice, StorageTier::kHostPinned, StorageTier::kDisk, StorageTier::kExternal};
  std::vector<engine::KvEvent> events;
  for (const StorageTier tier : tiers) {
    events.push_back(Event(1, tier));
  }
  events.push_back(Event(1, StorageTier::kHostPinned, /*stored=*/false));
  const auto ends = [](const std::vector<RouterEvent>& all) {
    return !all.empty() && all.back().kind == RouterEvent::Kind::kRemoved;
  };
  Say(std::move(events));
  transport::Until([] {}, [&] { return ends(Told(EventScope::kEndpoint)); });
  for (const auto scope : {EventScope::kComponent, EventScope::kEndpoint}) {
    auto told = Told(scope);
    ASSERT_TRUE(ends(told));
    EXPECT_EQ(told.back().tier, StorageTier::kHostPinned);
    told.erase(told.begin(), told.end() - 5);
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      EXPECT_EQ(told[i].tier, tiers[i]);
      ASSERT_EQ(told[i].blocks.size(), 1U);
      EXPECT_EQ(told[i].blocks[0].tokens_hash,
                transport::HashWindow(
                    std::vector<std::uint32_t>{1, 2, 3, 1}, {}, transport::TokenHashSeed("", "")));
    }
  }
}

TEST_F(Outlets, TellThatTheCacheWasCleared) {
  Join();
  engine::KvEvent cleared;
  cleared.event_id = next_event_id_++;
  cleared.kind = engine::KvEvent::Kind::kCleared;
  Say({cleared});
  for (const auto scope : {EventScope::kComponent, EventScope::kEndpoint}) {
    transport::Until([] {},
                     [&] {
                       return !Told(scope).empty() &&
                              Told(scope).back().kind == RouterEvent::Kind::kCleared;
                     });
  }
}

TEST_F(Outlets, AnEventThatDoesNotNameItsTokensCostsItself) {
  Join();
  auto nameless = Event(1, StorageTier::kHostPinned);
  nameless.tokens.clear();
  Say({nameless, Event(2, StorageTier::kDevice)});
  transport::Until([] {},
                   [&] {
                     const auto told = Told(EventScope::kEndpoint);
                     return told.back().blocks.front().block_hash == BlockHash{2};
                   });
  for (const auto& event : Told(EventScope::kEndpoint)) {
    EXPECT_EQ(event.tier, StorageTier::kDevice);
    EXPECT_FALSE(event.blocks.empty());
  }
  EXPECT_EQ(Do([&] { return outlets_->without_tokens(); }), 1U);
}

}  // namespace
}  // namespace understudy::worker
