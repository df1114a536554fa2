#include "worker/load_metrics/sequence_publisher.h"

#include "tests/fakes/fake_event_plane.h"
#include "understudy/transport/event_payloads.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

class SequencePublisherTest : public ::testing::Test {
 protected:
  fakes::FakeEventPlane plane_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  std::unique_ptr<transport::EventPublisher> wire_ = *plane_.Open({}, transport::Delivery::kKept);
};

TEST_F(SequencePublisherTest, SendsOneMessagePerPromptOnNats) {
  SequencePublisher publisher({wire_.get()}, false, *metrics_);
  publisher.PromptComputed(7, 1, "request-a");
  publisher.PromptComputed(7, 0, "request-b");
  EXPECT_TRUE(plane_.published.empty());
  publisher.Send();
  ASSERT_EQ(plane_.published.size(), 2U);
  const auto event = transport::DecodeSequenceEvent(plane_.published[0].payload);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->request_id, "request-a");
  EXPECT_EQ(event->worker_id, 7U);
  EXPECT_EQ(event->router_id, 7U);
  EXPECT_EQ(event->dp_rank, 1U);
  EXPECT_EQ(event->kind, "MarkPrefillCompleted");
  publisher.Send();
  EXPECT_EQ(plane_.published.size(), 2U);
}

TEST_F(SequencePublisherTest, GroupsThemOnZmq) {
  SequencePublisher publisher({wire_.get()}, true, *metrics_);
  for (std::size_t i = 0; i < SequencePublisher::kEventsPerMessage + 1; ++i) {
    publisher.PromptComputed(7, 0, std::to_string(i));
  }
  publisher.Send();
  ASSERT_EQ(plane_.published.size(), 2U);
  const auto first = nlohmann::json::from_msgpack(plane_.published[0].payload);
  EXPECT_EQ(first["events"].size(), SequencePublisher::kEventsPerMessage);
  EXPECT_EQ(first["events"][1]["request_id"], "1");
  EXPECT_EQ(nlohmann::json::from_msgpack(plane_.published[1].payload)["events"].size(), 1U);
}

TEST_F(SequencePublisherTest, DropsAndCountsWhatDoesNotFit) {
  SequencePublisher publisher({wire_.get()}, false, *metrics_);
  for (std::size_t i = 0; i < SequencePublisher::kQueueMax + 3; ++i) {
    publisher.PromptComputed(7, 0, "x");
  }
  publisher.Send();
  EXPECT_EQ(plane_.published.size(), SequencePublisher::kQueueMax);
  EXPECT_NE(metrics_->Scrape(0).find(
                R"(worker_prefill_completion_enqueue_failures_total{reason="full"} 3)"),
            std::string::npos);
}

TEST_F(SequencePublisherTest, SaysNothingToReleasesThatDontListen) {
  SequencePublisher publisher({}, false, *metrics_);
  publisher.PromptComputed(7, 0, "x");
  publisher.Send();
  EXPECT_TRUE(plane_.published.empty());
}

}  // namespace
}  // namespace understudy::worker
