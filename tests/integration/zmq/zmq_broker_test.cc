// Publishers of an event plane with brokers: what becomes of messages when one of several is gone.
#include "tests/integration/zmq/zmq_broker.h"

#include "tests/fakes/loop_thread.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/zmq.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::LoopThread;

class Brokers : public ::testing::Test {
 protected:
  ~Brokers() override {
    thread_.Do([this] {
      publisher_.reset();
      plane_.reset();
      subscribers_.clear();
    });
  }
  void Open(const std::vector<std::string>& brokers, std::size_t unsent_bytes_max) {
    thread_.Do([&] {
      ZmqEventPlaneOptions options;
      options.brokers = brokers;
      options.broker_unsent_bytes_max = unsent_bytes_max;
      plane_ = NewZmqEventPlane(thread_.loop(), context_, options);
      publisher_ = std::move(*plane_->Open(
          {EventScope::kComponent, {"ns", "c", "e"}, "kv-events", 7}, Delivery::kKept));
      EXPECT_FALSE(publisher_->record());
    });
  }
  /// What is heard from now on is what this one hears.
  void Listen(const std::string& xpub) {
    thread_.Do([&] {
      const std::size_t number = subscribers_.size();
      subscribers_.push_back(std::move(*ZmqSubscriber::New(
          thread_.loop(), context_, "kv-events", {}, [this, number](ZmqFrames frames) {
            const auto event = ParseZmqEvent(frames);
            ASSERT_TRUE(event);
            const std::lock_guard lock(mutex_);
            if (number + 1 == subscribers_.size()) {
              newest_ = event->sequence;
              changed_.notify_all();
            }
          })));
      EXPECT_TRUE(subscribers_.back()->Connect(xpub));
      const std::lock_guard lock(mutex_);
      newest_.reset();
    });
  }
  Status Publish(const std::string& payload) {
    return thread_.Do([&] {
      ++sent_;
      return publisher_->Publish(payload);
    });
  }
  bool WaitForNewest() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return newest_ == sent_ - 1; });
  }
  /// Until messages come through: the connections stand.
  bool PublishUntilHeard() {
    for (int tries = 0; tries < 3000; ++tries) {
      EXPECT_TRUE(Publish("x"));
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(
              lock, std::chrono::milliseconds(10), [&] { return newest_.has_value(); })) {
        return true;
      }
    }
    return false;
  }

  LoopThread thread_;
  std::shared_ptr<ZmqContext> context_ = ZmqContext::New();
  std::unique_ptr<EventPlane> plane_;
  std::unique_ptr<EventPublisher> publisher_;
  std::vector<std::unique_ptr<ZmqSubscriber>> subscribers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t sent_ = 0;
  std::optional<std::uint64_t> newest_;
};

TEST_F(Brokers, OneThatIsGoneHoldsUpNobodyElse) {
  auto dies = std::make_unique<ZmqBroker>();
  ZmqBroker lives;
  constexpr std::size_t kPayload = 1U << 20U;
  Open({dies->xsub(), lives.xsub()}, 4 * kPayload);
  Listen(dies->xpub());
  ASSERT_TRUE(PublishUntilHeard()) << "through the first one";
  Listen(lives.xpub());
  ASSERT_TRUE(PublishUntilHeard()) << "through the second one";
  dies.reset();
  const std::string payload(kPayload, 'p');
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Publish(payload)) << i << ": five times what may wait for the first one";
    ASSERT_TRUE(WaitForNewest()) << i;
  }
}

TEST_F(Brokers, OneThatComesBackIsFoundAgain) {
  auto broker = std::make_unique<ZmqBroker>();
  const std::string xsub = broker->xsub();
  Open({xsub}, 64U << 20U);
  Listen(broker->xpub());
  ASSERT_TRUE(PublishUntilHeard());
  broker.reset();
  auto again = std::make_unique<ZmqBroker>(xsub);
  Listen(again->xpub());
  EXPECT_TRUE(PublishUntilHeard());
}

}  // namespace
}  // namespace understudy::transport
