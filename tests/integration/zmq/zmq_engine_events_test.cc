// From an engine's sockets to router events: EnginePublisher and EngineSubscriber, together and
// against peers played by the test.
#include "tests/integration/zmq/zmq_inbox.h"
#include "understudy/transport/kv_batch.h"
#include "worker/kv_relay/engine_publisher.h"
#include "worker/kv_relay/engine_subscriber.h"

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;
using transport::EngineKvEvent;
using transport::EngineKvStored;
using transport::RouterEvent;
using transport::ZmqFrames;
using transport::ZmqSend;

constexpr std::uint32_t kBlockSize = 4;

EngineKvEvent Stored(std::uint64_t hash) {
  EngineKvStored event;
  event.hashes = {BlockHash{hash}};
  event.tokens = {1, 2, 3, static_cast<std::uint32_t>(hash)};
  event.block_size = kBlockSize;
  return event;
}

std::string Payload(std::uint64_t hash) {
  const EngineKvEvent event = Stored(hash);
  return transport::EncodeKvBatch(1.0, std::span(&event, 1), 0);
}

/// Block hashes of stored events, -1 for a clear.
std::vector<std::int64_t> Hashes(const std::vector<RouterEvent>& events) {
  std::vector<std::int64_t> hashes;
  for (const RouterEvent& event : events) {
    if (event.kind == RouterEvent::Kind::kCleared) {
      hashes.push_back(-1);
    }
    for (const auto& block : event.blocks) {
      hashes.push_back(static_cast<std::int64_t>(Value(block.block_hash)));
    }
  }
  return hashes;
}

std::vector<std::int64_t> Rising(std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

class EngineEvents : public transport::ZmqTest {
 protected:
  using Inbox = transport::Inbox<RouterEvent>;

  ~EngineEvents() override {
    Do([&] {
      subscriber_.reset();
      publisher_.reset();
      raw_publisher_.reset();
      raw_router_.reset();
    });
  }

  /// Tries until the ports are free: libzmq closes sockets a moment after we did.
  void StartPublisher(std::uint16_t port = 0, std::uint16_t replay_port = 0) {
    EnginePublisher::Options options;
    options.host = "127.0.0.1";
    options.port = port;
    options.replay_port = replay_port;
    transport::Until(
        [&] {
          Do([&] {
            if (auto made = EnginePublisher::New(thread_.loop(), context_, options)) {
              publisher_ = std::move(*made);
            }
          });
        },
        [&] { return publisher_ != nullptr; });
  }
  /// Batches with the hashes `next_hash_`, ...
  void Publish(std::size_t count) {
    Do([&] {
      for (std::size_t i = 0; i < count; ++i) {
        const EngineKvEvent event = Stored(next_hash_++);
        publisher_->Publish(std::span(&event, 1), 1.0);
      }
    });
  }

  void StartSubscriber(const std::string& endpoint,
                       const std::string& replay_endpoint,
                       milliseconds replay_silence_max = std::chrono::seconds(30)) {
    Do([&] {
      EngineSubscriber::Options options;
      options.endpoint = endpoint;
      options.replay_endpoint = replay_endpoint;
      options.converter.block_size = kBlockSize;
      options.replay_silence_max = replay_silence_max;
      auto made = EngineSubscriber::New(
          thread_.loop(), context_, options, [&](std::vector<RouterEvent> events) {
            for (RouterEvent& event : events) {
              inbox_.Add(std::move(event));
            }
          });
      ASSERT_TRUE(made.has_value()) << made.error().message;
      subscriber_ = std::move(*made);
    });
  }

  template <class F>
  auto Order(F use) {
    return Do([&] { return use(*subscriber_); });
  }
  /// A PUB and a ROUTER that the test answers for; requests land in `requests_`.
  void StartRawEngine() {
    raw_publisher_ = Publisher("tcp://127.0.0.1:*");
    Do([&] {
      raw_router_ =
          std::move(*transport::ZmqRouter::New(thread_.loop(), context_, {}, [&](ZmqFrames frames) {
            requests_.Add(transport::Copy(frames));
          }));
      ASSERT_TRUE(raw_router_->Bind("tcp://127.0.0.1:*").has_value());
    });
    StartSubscriber(raw_publisher_->bound_endpoint(), raw_router_->bound_endpoint(), silence_max_);
    // A frame too few is counted and nothing else: a way to see that the connection stands.
    transport::Until(
        [&] { Do([&] { return SendTo(*raw_publisher_, {"join"}); }); },
        [&] { return Order([](auto& one) { return one.counters().bad_frames > 0; }); });
  }
  void SendLive(std::uint64_t sequence, std::uint64_t hash) {
    Do([&] { SendTo(*raw_publisher_, {"", transport::SequenceFrame(sequence), Payload(hash)}); });
  }
  void Reply(transport::Message frames) {
    frames.insert(frames.begin(), requests_.Items().back()[0]);
    Do([&] { EXPECT_EQ(SendTo(*raw_router_, frames), ZmqSend::kSent); });
  }
  std::uint64_t StartOfRequest(std::size_t number) {
    EXPECT_TRUE(requests_.WaitFor(number + 1));
    const auto frames = requests_.Items().at(number);
    EXPECT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames.at(1), "");
    return transport::ParseSequenceFrame(frames.at(2)).value();
  }

  std::uint64_t Lost() {
    return Order([](const EngineSubscriber& one) { return one.order().lost; });
  }

  milliseconds silence_max_ = std::chrono::seconds(30);
  std::uint64_t next_hash_ = 0;
  Inbox inbox_;
  transport::Inbox<transport::Message> requests_;
  std::unique_ptr<EnginePublisher> publisher_;
  std::unique_ptr<EngineSubscriber> subscriber_;
  std::unique_ptr<transport::ZmqPublisher> raw_publisher_;
  std::unique_ptr<transport::ZmqRouter> raw_router_;
};

TEST_F(EngineEvents, U5WhoComesLateGetsTheBeginningFromTheReplaySocket) {
  StartPublisher();
  Publish(7);
  StartSubscriber(publisher_->endpoint(), publisher_->replay()->endpoint());
  transport::Until([&] { Publish(1); }, [&] { return inbox_.WaitFor(8, milliseconds(5)); });
  ASSERT_TRUE(inbox_.WaitFor(next_hash_));
  EXPECT_EQ(Hashes(inbox_.Items()), Rising(0, next_hash_));
  EXPECT_EQ(Lost(), 0U);
}

TEST_F(EngineEvents, U10ABurstRightAfterTheBindHasNoHoleInTheEnd) {
  constexpr std::size_t kBatches = 9'000;  // the ring holds 10,000
  StartPublisher();
  StartSubscriber(publisher_->endpoint(), publisher_->replay()->endpoint());
  for (std::size_t i = 0; i < kBatches; i += 500) {
    Publish(500);
  }
  transport::Until([&] { Publish(1); },
                   [&] { return inbox_.WaitFor(next_hash_, milliseconds(50)); });
  EXPECT_EQ(Hashes(inbox_.Items()), Rising(0, next_hash_));
  EXPECT_EQ(Lost(), 0U);
}

TEST_F(EngineEvents, U10WithoutAReplaySocketTheNumberOfLostBatchesIsExact) {
  StartPublisher();
  Publish(100);
  StartSubscriber(publisher_->endpoint(), "");
  transport::Until([&] { Publish(1); }, [&] { return inbox_.WaitFor(1, milliseconds(5)); });
  Publish(1000);
  transport::Until([] {}, [&] { return inbox_.size() + Lost() == next_hash_; });
  const auto hashes = Hashes(inbox_.Items());
  EXPECT_EQ(hashes, Rising(hashes.front(), hashes.size()));
  EXPECT_EQ(Lost(), static_cast<std::uint64_t>(hashes.front()));
}

TEST_F(EngineEvents, U7AnEngineThatStartsAnewIsClearedBeforeItsNewBlocks) {
  StartPublisher();
  const auto port = [](const std::string& endpoint) {
    return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  };
  const std::uint16_t events_port = port(publisher_->endpoint());
  const std::uint16_t replay_port = port(publisher_->replay()->endpoint());
  StartSubscriber(publisher_->endpoint(), publisher_->replay()->endpoint());
  transport::Until([&] { Publish(1); }, [&] { return inbox_.WaitFor(20, milliseconds(5)); });
  ASSERT_TRUE(inbox_.WaitFor(next_hash_));
  const std::size_t before = next_hash_;

  Do([&] { publisher_.reset(); });
  StartPublisher(events_port, replay_port);
  transport::Until([&] { Publish(1); },
                   [&] { return inbox_.WaitFor(next_hash_ + 1, milliseconds(50)); });
  auto expected = Rising(0, before);
  expected.push_back(-1);
  for (const std::int64_t hash : Rising(static_cast<std::int64_t>(before), next_hash_ - before)) {
    expected.push_back(hash);
  }
  EXPECT_EQ(Hashes(inbox_.Items()), expected);
  EXPECT_EQ(Lost(), 0U);
  EXPECT_EQ(Order([](auto& one) { return one.order().restarts; }), 1U);
}

TEST_F(EngineEvents, U6AGapIsFilledBeforeWhatCameBehindItInBothShapesOfReplies) {
  for (const bool with_topic : {false, true}) {
    SCOPED_TRACE(with_topic ? "replies as 1.6 sends them" : "replies as 1.3 sends them");
    EngineEvents::StartRawEngine();
    const std::size_t seen = inbox_.size();
    const std::size_t asked = requests_.size();
    for (const std::uint64_t i : {0U, 1U, 5U, 6U}) {
      SendLive(i, i);
    }
    EXPECT_EQ(StartOfRequest(asked), 1U) << "with the batch before the gap";
    for (std::uint64_t i = 1; i < 7; ++i) {
      Reply(with_topic ? transport::Message{"", "", transport::SequenceFrame(i), Payload(i)}
                       : transport::Message{"", transport::SequenceFrame(i), Payload(i)});
    }
    const std::string end = transport::SequenceFrame(transport::kReplayEndSequence);
    Reply(with_topic ? transport::Message{"", "", end, ""} : transport::Message{"", end, ""});
    SendLive(7, 7);
    ASSERT_TRUE(inbox_.WaitFor(seen + 8));
    auto items = inbox_.Items();
    items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(seen));
    EXPECT_EQ(Hashes(items), Rising(0, 8));
    EXPECT_EQ(Lost(), 0U);
    Do([&] {
      subscriber_.reset();
      raw_publisher_.reset();
      raw_router_.reset();
    });
  }
}

TEST_F(EngineEvents, U6AReplayThatNeverEndsIsGivenUpAndTheNextGapIsNotAskedFor) {
  silence_max_ = milliseconds(20);
  StartRawEngine();
  for (const std::uint64_t i : {0U, 3U}) {
    SendLive(i, i);
  }
  ASSERT_TRUE(inbox_.WaitFor(2));
  EXPECT_EQ(Lost(), 2U);
  SendLive(5, 5);
  ASSERT_TRUE(inbox_.WaitFor(3));
  EXPECT_EQ(Hashes(inbox_.Items()), (std::vector<std::int64_t>{0, 3, 5}));
  EXPECT_EQ(Lost(), 3U);
  EXPECT_EQ(requests_.size(), 1U);
  EXPECT_EQ(Order([](auto& one) { return one.counters().replay_silences; }), 1U);
}

TEST_F(EngineEvents, U9OneThatReadsAStreamOfBadMessagesGoesOn) {
  StartRawEngine();
  Do([&] {
    const std::string zero = transport::SequenceFrame(0);
    SendTo(*raw_publisher_, {"", zero, "\xc1"});
    SendTo(*raw_publisher_, {"", std::string(9, '\0'), Payload(1)});
    SendTo(*raw_publisher_, {"", transport::SequenceFrame(1), ""});
    SendTo(*raw_publisher_, {"", zero, Payload(1), "more"});
    SendTo(*raw_publisher_, {"", transport::SequenceFrame(2), Payload(2)});
  });
  ASSERT_TRUE(inbox_.WaitFor(1));
  EXPECT_EQ(Hashes(inbox_.Items()), (std::vector<std::int64_t>{2}));
  const auto counters = Order([](auto& one) { return one.counters(); });
  EXPECT_EQ(counters.bad_batches, 2U);
  EXPECT_GE(counters.bad_frames, 3U);
  EXPECT_EQ(Lost(), 0U);
}

TEST_F(EngineEvents, APortThatIsTakenIsNamed) {
  StartPublisher();
  Do([&] {
    EnginePublisher::Options options;
    options.host = "127.0.0.1";
    const std::string endpoint = publisher_->endpoint();
    options.port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
    const auto taken = EnginePublisher::New(thread_.loop(), context_, options);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().message,
              "ZMQ PUB bind to " + endpoint + " failed: Address already in use");
  });
}

}  // namespace
}  // namespace understudy::worker
