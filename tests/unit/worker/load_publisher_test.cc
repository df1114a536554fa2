#include "worker/load_metrics/load_publisher.h"

#include "tests/fakes/fake_loop.h"
#include "tests/fakes/fake_nats.h"
#include "understudy/transport/codec.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

class LoadPublisherTest : public ::testing::Test {
 protected:
  LoadPublisherTest() : publisher_(loop_, nats_, Routes(), *metrics_) {
    publisher_.AddWorker(77, 0, 2, nullptr);
  }

  static std::vector<EventRoute> Routes() {
    return MakeReleaseProfile("1.3", {"ns", "backend", "generate"}, 5)->load_routes;
  }

  void Say(std::uint32_t rank, std::uint64_t blocks) {
    engine::Load load;
    load.rank = RankIndex{rank};
    load.blocks_active = blocks;
    publisher_.OnLoad(load);
  }
  /// rank=value of every message so far, in order.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> Said() {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> values;
    for (const auto& message : nats_.published) {
      const auto envelope = transport::DecodeEnvelope(message.payload);
      EXPECT_TRUE(envelope);
      const auto load = transport::DecodeActiveLoad(envelope->payload);
      EXPECT_TRUE(load);
      EXPECT_EQ(load->worker_id, 77U);
      EXPECT_FALSE(load->active_decode_blocks.has_value());
      values.emplace_back(load->dp_rank, load->kv_used_blocks.value_or(999'999));
    }
    return values;
  }
  using Values = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

  fakes::FakeLoop loop_;
  fakes::FakeNats nats_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  LoadPublisher publisher_;
};

// M-038
TEST_F(LoadPublisherTest, SendsTheEnvelopeThatRoutersRead) {
  Say(1, 9);
  loop_.Advance(LoadPublisher::kDebounce);
  ASSERT_EQ(nats_.published.size(), 1U);
  EXPECT_EQ(nats_.published[0].subject, "namespace.ns.kv_metrics");
  const auto envelope = transport::DecodeEnvelope(nats_.published[0].payload);
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->publisher_id, 5U);
  EXPECT_EQ(envelope->sequence, 0U);
  EXPECT_EQ(envelope->topic, "kv_metrics");
  EXPECT_EQ(Said(), (Values{{1, 9}}));
}

// M-039, U43: many passes within the debounce make one message, and the last value wins.
TEST_F(LoadPublisherTest, DebouncesAndSuppressesEqualValues) {
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    Say(0, n);
  }
  Say(0, 3);
  EXPECT_TRUE(nats_.published.empty());
  loop_.Advance(LoadPublisher::kDebounce);
  EXPECT_EQ(Said(), (Values{{0, 3}}));
  Say(0, 3);
  loop_.Advance(LoadPublisher::kDebounce * 10);
  EXPECT_EQ(nats_.published.size(), 1U);
  EXPECT_EQ(loop_.timers_armed(), 0U);
}

// M-040
TEST_F(LoadPublisherTest, RanksDoNotOverwriteOneAnother) {
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

// M-041
TEST_F(LoadPublisherTest, RepeatsValuesThatWereLostWithTheConnection) {
  Say(0, 4);
  loop_.Advance(LoadPublisher::kDebounce);
  nats_.down = true;
  Say(0, 5);
  loop_.Advance(LoadPublisher::kDebounce);
  nats_.down = false;
  publisher_.SayAllAgain();
  EXPECT_EQ(Said(), (Values{{0, 4}, {0, 5}}));
}

// M-042
TEST_F(LoadPublisherTest, SaysNothingAfterStop) {
  Say(0, 4);
  publisher_.Stop();
  EXPECT_EQ(Said(), (Values{{0, 4}}));
  Say(0, 9);
  loop_.Advance(LoadPublisher::kDebounce * 2);
  EXPECT_EQ(nats_.published.size(), 1U);
}

}  // namespace
}  // namespace understudy::worker
