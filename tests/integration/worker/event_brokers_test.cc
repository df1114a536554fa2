// A ZMQ event plane with brokers between workers and routers. Source: events.md 3.1; keys and
// records as seen of the workers of 1.3.0.post1 and 1.6.1.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"
#include "tests/integration/zmq/zmq_broker.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/zmq.h"

#include <map>
#include <mutex>

namespace understudy::worker {
namespace {

using transport::ZmqBroker;

const Arguments kSmall = kFree + Arguments{"--num-gpu-blocks-override",
                                           "64",
                                           "--block-size",
                                           "4",
                                           "--engine-threads",
                                           "1",
                                           "--event-plane",
                                           "zmq"};

/// All that brokers pass on, by routing key.
class Listener {
 public:
  explicit Listener(const std::vector<std::string>& endpoints) {
    thread_.Do([&] {
      auto made =
          transport::ZmqSubscriber::New(thread_.loop(),
                                        transport::ZmqContext::New(),
                                        "",
                                        {},
                                        [this](transport::ZmqFrames frames) { Take(frames); });
      UNDERSTUDY_ASSERT(made.has_value());
      subscriber_ = std::move(*made);
      for (const auto& endpoint : endpoints) {
        UNDERSTUDY_ASSERT(subscriber_->Connect(endpoint).has_value());
      }
    });
  }
  ~Listener() {
    thread_.Do([this] { subscriber_.reset(); });
  }
  /// Sequence numbers under a key, as they came.
  std::vector<std::uint64_t> Sequences(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return sequences_[key];
  }
  std::set<std::string> Keys() {
    const std::lock_guard lock(mutex_);
    std::set<std::string> keys;
    for (const auto& [key, sequences] : sequences_) {
      keys.insert(key);
    }
    return keys;
  }

 private:
  void Take(transport::ZmqFrames frames) {
    const auto event = transport::ParseZmqEvent(frames);
    ASSERT_TRUE(event.has_value()) << event.error().message;
    const auto envelope = transport::DecodeEnvelope(event->envelope);
    ASSERT_TRUE(envelope.has_value());
    EXPECT_EQ(envelope->publisher_id, event->publisher_id);
    EXPECT_TRUE(event->topic.ends_with(envelope->topic)) << event->topic;
    const std::lock_guard lock(mutex_);
    sequences_[std::string(event->topic)].push_back(event->sequence);
  }

  std::mutex mutex_;
  std::map<std::string, std::vector<std::uint64_t>> sequences_;
  fakes::LoopThread thread_;
  std::unique_ptr<transport::ZmqSubscriber> subscriber_;
};

class EventBrokers : public WorkerTest {
 protected:
  void Load(const WorkerProcess& worker, std::uint32_t requests) {
    for (std::uint32_t i = 0; i < requests; ++i) {
      auto spec = Spec(worker, 0, 8);
      spec.request.token_ids = Prompt(16, ++seed_);
      const auto call = frontend().Send(spec);
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->error(), "");
    }
  }
  /// `key` as the endpoint's routers subscribe to it.
  std::string Full(const std::string& topic) const {
    return "namespace." + ns() + ".component.backend.endpoint.generate." + topic;
  }
  /// Until both releases' forms have come through.
  bool LoadUntilHeard(const WorkerProcess& worker, Listener& listener) {
    return Eventually([&] {
      Load(worker, 1);
      return !listener.Sequences("kv-events").empty() &&
             !listener.Sequences(Full("kv-events")).empty();
    });
  }

  std::uint32_t seed_ = 0;
};

TEST_F(EventBrokers, WorkersRegisterNoChannelsAndNameThePlaceIn16sKeys) {
  ZmqBroker broker;
  Listener listener({broker.xpub()});
  environment["DYN_ZMQ_BROKER_URL"] = "xsub=" + broker.xsub() + " , xpub=" + broker.xpub();
  const auto worker = Start(kSmall);
  ASSERT_TRUE(LoadUntilHeard(*worker, listener));
  EXPECT_TRUE(Records("event_channels").empty());
  EXPECT_EQ(Records("event_sources").size(), 1U);
  Load(*worker, 40);
  for (const std::string& key : {std::string("kv-events"), Full("kv-events")}) {
    ASSERT_TRUE(Eventually([&] { return listener.Sequences(key).size() >= 40; })) << key;
    const auto sequences = listener.Sequences(key);
    for (std::size_t i = 1; i < sequences.size(); ++i) {
      ASSERT_EQ(sequences[i], sequences[i - 1] + 1) << key;
    }
  }
  const std::set<std::string> expected = {"kv-events",
                                          "kv_metrics",
                                          "forward-pass-metrics",
                                          Full("kv-events"),
                                          Full("kv_metrics"),
                                          Full("forward-pass-metrics"),
                                          Full("active_sequences_events")};
  EXPECT_TRUE(Eventually([&] { return listener.Keys() == expected; }));
}

TEST_F(EventBrokers, EachOfSeveralBrokersGetsEverythingAndOneIsEnough) {
  auto first = std::make_unique<ZmqBroker>();
  ZmqBroker second;
  Listener at_first({first->xpub()});
  Listener at_second({second.xpub()});
  environment["DYN_ZMQ_BROKER_URL"] = "xsub=" + first->xsub() + ";" + second.xsub() +
                                      ",xpub=" + first->xpub() + ";" + second.xpub();
  const auto worker = Start(kSmall);
  ASSERT_TRUE(LoadUntilHeard(*worker, at_first));
  ASSERT_TRUE(LoadUntilHeard(*worker, at_second));
  first.reset();
  const auto before = at_second.Sequences("kv-events").size();
  Load(*worker, 10);
  EXPECT_TRUE(Eventually([&] { return at_second.Sequences("kv-events").size() >= before + 10; }));
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(EventBrokers, AreFoundThroughDiscovery) {
  ZmqBroker broker;
  Listener listener({broker.xpub()});
  environment["DYN_ZMQ_BROKER_ENABLED"] = "true";
  const auto refused = Launch(kSmall);
  EXPECT_EQ(refused->WaitExit(), 1);
  EXPECT_EQ(refused->CountErr("discovery knows no broker of namespace '" + ns() + "'"), 1U);

  fakes::LoopThread thread;
  auto discovery =
      thread.Do([&] { return transport::NewFileDiscovery(thread.loop(), {folder().path()}); });
  const transport::EventChannel place{transport::EventScope::kComponent,
                                      {ns(), std::string(transport::kZmqBrokerComponent), ""},
                                      "events",
                                      7};
  const auto record =
      transport::EncodeEventChannel(place,
                                    {.kind = transport::EventTransport::Kind::kZmqBroker,
                                     .xsub = {broker.xsub()},
                                     .xpub = {broker.xpub()}});
  using Lease = Result<std::uint64_t>;
  ASSERT_TRUE(thread.Ask<Lease>([&](auto done) { discovery->Start(std::move(done)); }));
  ASSERT_TRUE(thread.Ask<Status>([&](auto done) { discovery->Put({record}, std::move(done)); }));

  const auto worker = Start(kSmall);
  ASSERT_TRUE(LoadUntilHeard(*worker, listener));
  WorkerProcess watcher({"call", "--watch", "--event-plane", "zmq"}, environment);
  EXPECT_TRUE(Eventually([&] {
    Load(*worker, 1);
    return watcher.out().find("event kv-events worker=" + worker->Instances().at(0)) !=
           std::string::npos;
  })) << watcher.out()
      << watcher.err();
  watcher.Signal(SIGINT);
  EXPECT_EQ(watcher.WaitExit(), 0);
  thread.Do([&] { discovery.reset(); });
}

TEST_F(EventBrokers, WatchersShowWhatSeveralBrokersBringOnce) {
  ZmqBroker first;
  ZmqBroker second;
  environment["DYN_ZMQ_BROKER_URL"] =
      "xsub=" + first.xsub() + ";" + second.xsub() + ",xpub=" + first.xpub() + ";" + second.xpub();
  const auto worker = Start(kSmall + Arguments{"--dynamo-release", "1.6"});
  WorkerProcess watcher({"call", "--watch", "--event-plane", "zmq"}, environment);
  const auto lines = [&] {
    std::map<std::string, int> counts;
    std::istringstream out(watcher.out());
    for (std::string line; std::getline(out, line);) {
      counts[line] += line.starts_with("event kv-events") ? 1 : 0;
    }
    return counts;
  };
  ASSERT_TRUE(Eventually([&] {
    Load(*worker, 5);
    return lines().size() > 20;
  })) << watcher.err();
  watcher.Signal(SIGINT);
  EXPECT_EQ(watcher.WaitExit(), 0);
  for (const auto& [line, count] : lines()) {
    EXPECT_LE(count, 1) << line;
  }
}

TEST_F(EventBrokers, AnAddressThatIsNoneIsRefusedByName) {
  environment["DYN_ZMQ_BROKER_URL"] = "tcp://127.0.0.1:5555";
  const auto worker = Launch(kSmall);
  EXPECT_EQ(worker->WaitExit(), 1);
  EXPECT_EQ(worker->CountErr("DYN_ZMQ_BROKER_URL 'tcp://127.0.0.1:5555' is not understood"), 1U);
}

}  // namespace
}  // namespace understudy::worker
