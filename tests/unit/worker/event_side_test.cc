#include "worker/event_side/event_side.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_loop.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

class EventSideTest : public ::testing::Test {
 protected:
  engine::KvEvent Stored(std::uint32_t rank) {
    engine::KvEvent event;
    event.kind = engine::KvEvent::Kind::kStored;
    event.rank = RankIndex{rank};
    event.blocks = {{BlockHash{7 + rank}, TokensHash{7}}};
    return event;
  }

  fakes::FakeLoop loop_;
  fakes::FakeEventPlane plane_;
  SteadyClock clock_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  transport::EndpointName endpoint_{"ns", "backend", "generate"};
  ReleaseProfile profile_ = *MakeReleaseProfile("both", endpoint_);
  EventSide side_{loop_, plane_, clock_, *metrics_, profile_, endpoint_, {}};
  EndpointProbe* probe_ = &metrics_->AddEndpoint("ns", "backend", "generate", "1");
};

TEST_F(EventSideTest, M033_ARankWithoutAPublisherServesWithoutItsEvents) {
  ASSERT_TRUE(side_.Open());
  plane_.refused_topic = kKvEventsTopic;
  side_.AddWorker(1, 1, probe_);
  plane_.refused_topic.clear();
  side_.AddWorker(2, 1, probe_);
  EXPECT_EQ(side_.sources().size(), 2U) << "of the second worker, one for each release";
  side_.OnKvEvents({Stored(0), Stored(1)});
  side_.EndTurn();
  EXPECT_EQ(plane_.Of(kKvEventsTopic, transport::EventScope::kComponent).size(), 1U);
  EXPECT_EQ(plane_.Of(kKvEventsTopic, transport::EventScope::kEndpoint).size(), 1U);
  side_.Stop();
}

TEST_F(EventSideTest, WithoutAPublisherOfLoadsItDoesNotBegin) {
  plane_.refused_topic = kLoadTopic;
  const auto open = side_.Open();
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().message, "event plane: no more sockets");
}

}  // namespace
}  // namespace understudy::worker
