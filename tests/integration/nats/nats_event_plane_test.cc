// The event plane over a real nats-server: envelopes, order, what happens when the link is full or
// gone.
#include "tests/integration/nats/connected_client.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/event_plane.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

class NatsEventPlaneTest : public ConnectedClient {
 protected:
  void SetUp() override {
    ConnectedClient::SetUp();
    reader_ = std::make_unique<TestClient>(thread_, server_->url());
    ASSERT_TRUE(reader_->Start());
    reader_->Subscribe("namespace.ns.>", inbox_);
    ASSERT_TRUE(reader_->Flush());
    client_->Do([this](NatsClient& nats) {
      plane_ = NewNatsEventPlane(thread_.loop(), nats);
      for (const auto scope : {EventScope::kComponent, EventScope::kEndpoint}) {
        auto publisher =
            plane_->Open({scope, {"ns", "backend", "generate"}, "kv-events", 7}, Delivery::kKept);
        EXPECT_TRUE(publisher.has_value());
        publishers_.push_back(std::move(*publisher));
      }
    });
  }
  void TearDown() override {
    thread_.Do([this] {
      publishers_.clear();
      plane_.reset();
    });
  }
  Status Publish(std::size_t publisher, const std::string& payload) {
    return thread_.Do([&] { return publishers_[publisher]->Publish(payload); });
  }

  Inbox inbox_;
  std::unique_ptr<TestClient> reader_;
  std::unique_ptr<EventPlane> plane_;
  std::vector<std::unique_ptr<EventPublisher>> publishers_;
};

TEST_F(NatsEventPlaneTest, PutsPayloadsIntoEnvelopesOnTheSubjectOfTheChannel) {
  ASSERT_TRUE(Publish(0, "a"));
  ASSERT_TRUE(Publish(0, "b"));
  ASSERT_TRUE(Publish(1, "c"));
  const auto got = inbox_.WaitFor(3);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].subject, "namespace.ns.component.backend.kv-events");
  EXPECT_EQ(got[2].subject, "namespace.ns.component.backend.endpoint.generate.kv-events");
  const auto second = DecodeEnvelope(got[1].payload);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->publisher_id, 7U);
  EXPECT_EQ(second->sequence, 1U);
  EXPECT_EQ(second->topic, "kv-events");
  EXPECT_EQ(second->payload, "b");
  EXPECT_EQ(DecodeEnvelope(got[2].payload)->sequence, 0U);  // each counts by itself
}

TEST_F(NatsEventPlaneTest, KeepsWhatTheConnectionDoesNotTakeAtOnce) {
  constexpr std::size_t kMessages = 200;
  const std::string payload(100'000, 'x');  // 20 MB in one turn of the loop
  thread_.Do([&] {
    for (std::size_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(publishers_[0]->Publish(payload + std::to_string(i)));
    }
  });
  const auto got = inbox_.WaitFor(kMessages);
  ASSERT_EQ(got.size(), kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    const auto envelope = DecodeEnvelope(got[i].payload);
    ASSERT_TRUE(envelope.has_value());
    EXPECT_EQ(envelope->sequence, i);
    EXPECT_EQ(envelope->payload.substr(payload.size()), std::to_string(i));
  }
}

TEST_F(NatsEventPlaneTest, RefusesLossyMessagesAtOnceWhenTheConnectionIsFull) {
  const std::string payload(900'000, 'x');
  thread_.Do([&] {
    const auto lossy =
        plane_->Open({EventScope::kEndpoint, {"ns", "b", "g"}, "passes", 8}, Delivery::kLossy);
    EXPECT_TRUE((*lossy)->Publish("taken"));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(publishers_[0]->Publish(payload));
    }
    const auto refused = (*lossy)->Publish("not taken");
    EXPECT_FALSE(refused);
  });
  EXPECT_EQ(inbox_.WaitFor(4).size(), 4U);
}

TEST_F(NatsEventPlaneTest, RefusesMoreThanMayWait) {
  const std::string payload(900'000, 'x');
  const auto refusal = thread_.Do([&] {
    for (std::size_t i = 0; i < kEventsWaitingBytesMax / payload.size() + 3; ++i) {
      if (auto sent = publishers_[0]->Publish(payload); !sent) {
        return sent.error().code;
      }
    }
    return Errc::kInternal;
  });
  EXPECT_EQ(refusal, Errc::kOverloaded);
}

TEST_F(NatsEventPlaneTest, SaysWhatAMessageMayHold) {
  const std::size_t limit = thread_.Do([&] { return plane_->payload_bytes_max(); });
  ASSERT_TRUE(Publish(1, std::string(limit, 'x')));
  EXPECT_EQ(inbox_.WaitFor(1).size(), 1U);
  const auto sent = Publish(1, std::string(limit + 1000, 'x'));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::kMalformed);
}

TEST_F(NatsEventPlaneTest, LosesMessagesWithTheLinkButNotTheirNumbers) {
  ASSERT_TRUE(Publish(0, "first"));
  EXPECT_EQ(inbox_.WaitFor(1).size(), 1U);
  server_->Stop();
  ASSERT_TRUE(client_->WaitConnected(false));
  ASSERT_TRUE(reader_->WaitConnected(false));
  const auto lost = Publish(0, "lost");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::kUnavailable);
  ASSERT_TRUE(server_->Restart());
  ASSERT_TRUE(client_->WaitConnected(true));
  ASSERT_TRUE(reader_->WaitConnected(true));
  ASSERT_TRUE(reader_->Flush());
  ASSERT_TRUE(Publish(0, "third"));
  const auto got = inbox_.WaitFor(2);
  ASSERT_EQ(got.size(), 2U);
  const auto envelope = DecodeEnvelope(got[1].payload);
  ASSERT_TRUE(envelope.has_value());
  EXPECT_EQ(envelope->payload, "third");
  EXPECT_EQ(envelope->sequence, 2U);
}

}  // namespace
}  // namespace understudy::transport
