#include "worker/load_metrics/load_publisher.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_loop.h"
#include "understudy/transport/codec.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

class LoadPublisherTest : public ::testing::Test {
 protected:
  LoadPublisherTest() { publisher_.AddWorker(77, 0, 2, &probe_); }

  /// Keeps the sums of the worker.
  class SumProbe final : public EndpointProbe {
   public:
    engine::Load sum;
    void RequestArrived(std::uint64_t) override {}
    void StreamOpened() override {}
    void StreamClosed(double, std::uint64_t) override {}
    void Cancelled() override {}
    void Failed(ErrorType) override {}
    void Refused(RefusalReason) override {}
    void TokensSent(std::uint64_t) override {}
    void Load(const engine::Load& load) override { sum = load; }
  };

  void Say(std::uint32_t rank, std::uint64_t blocks) {
    engine::Load load;
    load.rank = RankIndex{rank};
    load.blocks_active = blocks;
    publisher_.OnLoad(load);
  }
  /// rank=value of every message so far, in order.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> Said() {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> values;
    for (const auto& message : plane_.published) {
      const auto load = transport::DecodeActiveLoad(message.payload);
      EXPECT_TRUE(load);
      EXPECT_EQ(load->worker_id, 77U);
      EXPECT_FALSE(load->active_decode_blocks.has_value());
      values.emplace_back(load->dp_rank, load->kv_used_blocks.value_or(999'999));
    }
    return values;
  }
  using Values = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

  fakes::FakeLoop loop_;
  fakes::FakeEventPlane plane_;
  std::unique_ptr<transport::EventPublisher> wire_ = *plane_.Open({}, transport::Delivery::kKept);
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  SumProbe probe_;
  LoadPublisher publisher_{loop_, {wire_.get()}, *metrics_};
};

TEST_F(LoadPublisherTest, M038_SendsTheMessageThatRoutersRead) {
  Say(1, 9);
  loop_.Advance(LoadPublisher::kDebounce);
  EXPECT_EQ(Said(), (Values{{1, 9}}));
}

TEST_F(LoadPublisherTest, ProbesGetTheSumsOverTheRanks) {
  Say(0, 4);
  Say(1, 6);
  EXPECT_EQ(probe_.sum.blocks_active, 10U);
  Say(0, 1);
  EXPECT_EQ(probe_.sum.blocks_active, 7U);
  Say(1, 0);
  EXPECT_EQ(probe_.sum.blocks_active, 1U);
}

// U43: many passes within the debounce make one message, and the last value wins.
TEST_F(LoadPublisherTest, M039_DebouncesAndSuppressesEqualValues) {
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    Say(0, n);
  }
  Say(0, 3);
  EXPECT_TRUE(plane_.published.empty());
  loop_.Advance(LoadPublisher::kDebounce);
  EXPECT_EQ(Said(), (Values{{0, 3}}));
  Say(0, 3);
  loop_.Advance(LoadPublisher::kDebounce * 10);
  EXPECT_EQ(plane_.published.size(), 1U);
  EXPECT_EQ(loop_.timers_armed(), 0U);
}

TEST_F(LoadPublisherTest, M040_RanksDoNotOverwriteOneAnother) {
  Say(0, 4);
  Say(1, 6);
  loop_.Advance(LoadPublisher::kDebounce);
  EXPECT_EQ(Said(), (Values{{0, 4}, {1, 6}}));
}

TEST_F(LoadPublisherTest, SaysZeroWhenIdleAgain) {
  Say(0, 4);
  loop_.Advance(LoadPublisher::kDebounce);
  Say(0, 0);
  loop_.Advance(LoadPublisher::kDebounce);
  EXPECT_EQ(Said(), (Values{{0, 4}, {0, 0}}));
}

TEST_F(LoadPublisherTest, SaysTheValuesAgainAtOnceAfterARefusal) {
  Say(0, 4);
  loop_.Advance(LoadPublisher::kDebounce);
  publisher_.SayAgain(RankIndex{1});
  EXPECT_EQ(Said(), (Values{{0, 4}, {0, 4}, {1, 0}}));
}

TEST_F(LoadPublisherTest, M041_RepeatsValuesThatWereLostWithTheConnection) {
  Say(0, 4);
  loop_.Advance(LoadPublisher::kDebounce);
  plane_.down = true;
  Say(0, 5);
  loop_.Advance(LoadPublisher::kDebounce);
  plane_.down = false;
  publisher_.SayAllAgain();
  EXPECT_EQ(Said(), (Values{{0, 4}, {0, 5}}));
}

TEST_F(LoadPublisherTest, M042_SaysNothingAfterStop) {
  Say(0, 4);
  publisher_.Stop();
  EXPECT_EQ(Said(), (Values{{0, 4}}));
  Say(0, 9);
  loop_.Advance(LoadPublisher::kDebounce * 2);
  EXPECT_EQ(plane_.published.size(), 1U);
}

}  // namespace
}  // namespace understudy::worker
