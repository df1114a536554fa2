#include "worker/load_metrics/forward_pass_publisher.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_loop.h"
#include "tests/fakes/manual_clock.h"

#include <utility>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EventScope;

class ForwardPassTest : public ::testing::Test {
 protected:
  ForwardPassTest() {
    publisher_.AddRank(1254149326330155078, 0);
    publisher_.AddRank(1254149326330155078, 1);
    publisher_.Start();
  }

  static transport::EventChannel Channel(EventScope scope) {
    return {scope, {"ns", "backend", "generate"}, "forward-pass-metrics", 1};
  }
  static engine::ForwardPass Pass(std::uint32_t rank) {
    engine::ForwardPass pass;
    pass.rank = RankIndex{rank};
    pass.duration = std::chrono::microseconds(1500);
    pass.prefill = {2, 300, 12.5};
    pass.prefill_tokens = 200;
    pass.prefill_kv_tokens = 100;
    pass.decode = {3, 900, 4.0};
    pass.queued_prefill = {1, 50, 0.0};
    pass.queued_decode = {4, 60, 1.0};
    return pass;
  }
  void Pass(Nanoseconds time) {
    clock_.Advance(time);
    loop_.Advance(time);
  }
  std::vector<transport::ForwardPassMetrics> Said(EventScope scope = EventScope::kComponent) {
    std::vector<transport::ForwardPassMetrics> all;
    for (const auto& payload : plane_.Of("forward-pass-metrics", scope)) {
      auto metrics = transport::DecodeForwardPass(payload);
      EXPECT_TRUE(metrics.has_value());
      all.push_back(*metrics);
    }
    return all;
  }

  fakes::FakeLoop loop_;
  ManualClock clock_;
  fakes::FakeEventPlane plane_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  std::unique_ptr<transport::EventPublisher> old_ =
      *plane_.Open(Channel(EventScope::kComponent), transport::Delivery::kLossy);
  std::unique_ptr<transport::EventPublisher> new_ =
      *plane_.Open(Channel(EventScope::kEndpoint), transport::Delivery::kLossy);
  ForwardPassPublisher publisher_{loop_, {old_.get(), new_.get()}, clock_, *metrics_};
};

TEST_F(ForwardPassTest, TellsEachReleaseWhatAPassDid) {
  publisher_.OnPasses({Pass(1)});
  for (const auto scope : {EventScope::kComponent, EventScope::kEndpoint}) {
    const auto said = Said(scope);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0].worker_id, "1254149326330155078");
    EXPECT_EQ(said[0].dp_rank, 1U);
    EXPECT_EQ(said[0].counter_id, 1U);
    EXPECT_EQ(said[0].wall_time_s, 0.0015);
    EXPECT_EQ(said[0].prefill.count, 2U);
    EXPECT_EQ(said[0].prefill.variance, 12.5);
    EXPECT_EQ(said[0].prefill_tokens, 200U);
    EXPECT_EQ(said[0].prefill_kv_tokens, 100U);
    EXPECT_EQ(said[0].decode.sum, 900U);
    EXPECT_EQ(said[0].queued_prefill.sum, 50U);
    EXPECT_EQ(said[0].queued_decode.count, 4U);
  }
}

// M-020: counters are a rank's own, and count heartbeats.
TEST_F(ForwardPassTest, SaysThatAnIdleRankIsThereOnceASecond) {
  Pass(std::chrono::milliseconds(600));
  publisher_.OnPasses({Pass(1)});
  Pass(std::chrono::milliseconds(400));  // rank 0 was silent for a second
  auto said = Said();
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[1].dp_rank, 0U);
  EXPECT_EQ(said[1].counter_id, 1U);
  EXPECT_EQ(said[1].wall_time_s, 0.0);
  EXPECT_EQ(said[1].prefill.count, 0U);
  Pass(std::chrono::milliseconds(600));
  said = Said();
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[2].dp_rank, 1U);
  EXPECT_EQ(said[2].counter_id, 2U);
}

TEST_F(ForwardPassTest, ABusyRankSendsNoHeartbeats) {
  for (int i = 0; i < 50; ++i) {
    publisher_.OnPasses({Pass(0), Pass(1)});
    Pass(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(Said().size(), 100U);
}

// M-019
TEST_F(ForwardPassTest, CountsWhatIsNotSentAndGoesOn) {
  plane_.down = true;
  publisher_.OnPasses({Pass(0)});
  plane_.down = false;
  publisher_.OnPasses({Pass(0)});
  const auto said = Said();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].counter_id, 2U);
  EXPECT_NE(metrics_->Scrape(0).find("understudy_forward_pass_messages_failed_total 2"),
            std::string::npos);
}

TEST_F(ForwardPassTest, SaysNothingAfterStop) {
  publisher_.Stop();
  publisher_.OnPasses({Pass(0)});
  Pass(std::chrono::seconds(5));
  EXPECT_TRUE(Said().empty());
}

}  // namespace
}  // namespace understudy::worker
