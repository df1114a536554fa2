// The other ways events leave a worker: ZMQ sockets, a JetStream stream, and the eyes of a person.
// Source: events.md 3.1, 3.2.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/durable_events.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/zmq.h"

#include <fstream>
#include <mutex>
#include <sstream>

namespace understudy::worker {
namespace {

const Arguments kSmall =
    kFree +
    Arguments{"--num-gpu-blocks-override", "64", "--block-size", "4", "--engine-threads", "1"};

class EventPlanes : public WorkerTest {
 protected:
  std::vector<transport::EventChannelRecord> Channels() const {
    std::vector<transport::EventChannelRecord> channels;
    for (const auto& name : Records("event_channels")) {
      std::ifstream file(folder().path() + "/v1/event_channels/" + name);
      std::ostringstream text;
      text << file.rdbuf();
      auto channel = transport::DecodeEventChannel(text.str());
      EXPECT_TRUE(channel.has_value()) << text.str();
      channels.push_back(*channel);
    }
    return channels;
  }
  void Load(const WorkerProcess& worker, std::uint32_t seed, std::uint32_t requests) {
    std::vector<CallPtr> calls;
    for (std::uint32_t i = 0; i < requests; ++i) {
      auto spec = Spec(worker, 0, 8);
      spec.request.token_ids = Prompt(16, seed * 1000 + i);
      calls.push_back(frontend().Send(spec));
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->error(), "");
    }
    ASSERT_TRUE(worker.WaitIdle());
  }
};

/// A subscriber of one publisher.
class ZmqReader {
 public:
  explicit ZmqReader(const transport::EventChannelRecord& record) : record_(record) {
    thread_.Do([this] {
      auto made =
          transport::ZmqSubscriber::New(thread_.loop(),
                                        transport::ZmqContext::New(),
                                        record_.channel.topic,
                                        {},
                                        [this](transport::ZmqFrames frames) { Take(frames); });
      UNDERSTUDY_ASSERT(made.has_value());
      subscriber_ = std::move(*made);
      UNDERSTUDY_ASSERT(subscriber_->Connect(record_.transport.address).has_value());
    });
  }
  ~ZmqReader() {
    thread_.Do([this] { subscriber_.reset(); });
  }
  std::vector<std::string> payloads() {
    const std::lock_guard lock(mutex_);
    return payloads_;
  }

 private:
  void Take(transport::ZmqFrames frames) {
    const auto event = transport::ParseZmqEvent(frames);
    ASSERT_TRUE(event.has_value()) << event.error().message;
    EXPECT_EQ(event->topic, record_.channel.topic);
    EXPECT_EQ(event->publisher_id, record_.channel.publisher_id);
    const auto envelope = transport::DecodeEnvelope(event->envelope);
    ASSERT_TRUE(envelope.has_value());
    EXPECT_EQ(envelope->publisher_id, event->publisher_id);
    EXPECT_EQ(envelope->sequence, event->sequence);
    EXPECT_EQ(envelope->topic, event->topic);
    const std::lock_guard lock(mutex_);
    payloads_.push_back(envelope->payload);
  }

  transport::EventChannelRecord record_;
  std::mutex mutex_;
  std::vector<std::string> payloads_;
  fakes::LoopThread thread_;
  std::unique_ptr<transport::ZmqSubscriber> subscriber_;
};

std::vector<transport::RouterEvent> EventsOf(ZmqReader& reader) {
  std::vector<transport::RouterEvent> all;
  for (const auto& payload : reader.payloads()) {
    const auto events = transport::DecodeRouterEvents(payload);
    EXPECT_TRUE(events.has_value());
    all.insert(all.end(), events->begin(), events->end());
  }
  return all;
}

TEST_F(EventPlanes, OnZmqEachPublisherIsASocketThatItsRecordNames) {
  environment["DYN_EVENT_PLANE_HOST"] = "127.0.0.1";
  const auto worker = Start(kSmall + Arguments{"--event-plane", "zmq"});
  const auto channels = Channels();
  EXPECT_EQ(channels.size(), 7U);
  std::set<std::string> addresses;
  std::vector<std::unique_ptr<ZmqReader>> readers;  // 1.3, then 1.6
  for (const auto scope : {transport::EventScope::kComponent, transport::EventScope::kEndpoint}) {
    for (const auto& record : channels) {
      EXPECT_TRUE(record.transport.address.starts_with("tcp://127.0.0.1:"));
      addresses.insert(record.transport.address);
      if (record.channel.topic == "kv-events" && record.channel.scope == scope) {
        readers.push_back(std::make_unique<ZmqReader>(record));
      }
    }
  }
  EXPECT_EQ(addresses.size(), channels.size()) << "one port per publisher";
  ASSERT_EQ(readers.size(), 2U);
  // A subscription takes a moment: what was published before it is lost.
  std::uint32_t seed = 0;
  ASSERT_TRUE(Eventually([&] {
    Load(*worker, ++seed, 1);
    return !readers[0]->payloads().empty() && !readers[1]->payloads().empty();
  }));
  Load(*worker, ++seed, 40);
  const auto published = worker->Metric("understudy_kv_events_published_total");
  for (auto& reader : readers) {
    ASSERT_TRUE(Eventually(
        [&] { return static_cast<double>(EventsOf(*reader).back().event_id) == published; }));
    const auto events = EventsOf(*reader);
    for (std::size_t i = 1; i < events.size(); ++i) {
      ASSERT_EQ(events[i].event_id, events[i - 1].event_id + 1);
    }
  }
  EXPECT_EQ(worker->CountErr("understudy events"), 0U);
}

TEST_F(EventPlanes, CallShowsKvEventsOfBothPlanes) {
  environment["DYN_EVENT_PLANE_HOST"] = "127.0.0.1";
  for (const std::string plane : {"nats", "zmq"}) {
    const auto worker = Start(kSmall + Arguments{"--event-plane", plane});
    WorkerProcess watcher({"call", "--watch", "--event-plane", plane}, environment);
    std::uint32_t seed = 0;
    ASSERT_TRUE(Eventually([&] {
      Load(*worker, ++seed, 1);
      return watcher.out().find("event kv-events worker=" + worker->Instances().at(0) +
                                " rank=0 id=") != std::string::npos;
    })) << watcher.out()
        << watcher.err();
    EXPECT_NE(watcher.out().find("stored tier=device blocks="), std::string::npos);
    watcher.Signal(SIGINT);
    EXPECT_EQ(watcher.WaitExit(), 0);
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0);
  }
}

TEST_F(EventPlanes, DurableEventsAreInTheStreamAsJson) {
  TempDir store;
  UseNats({"-js", "-sd", store.path()});
  const auto worker = Start(kSmall + Arguments{"--durable-kv-events", "--dynamo-release", "1.3"});
  for (const auto& record : Channels()) {
    EXPECT_NE(record.channel.topic, "kv-events");
  }
  for (const auto& name : Records("instances")) {
    EXPECT_EQ(name.find("query"), std::string::npos) << "a recovery endpoint: " << name;
  }
  EXPECT_EQ(ServingRecords().size(), 1U);
  fakes::LoopThread thread;
  transport::TestClient client(thread, nats().url());
  ASSERT_TRUE(client.Start());
  const auto stream = transport::KvStreamName({ns(), "backend", "generate"});
  Load(*worker, 1, 40);
  const auto published = worker->Metric("understudy_kv_events_published_total").value_or(0);
  ASSERT_GT(published, 0);
  const auto ask = [&](const std::string& what, const std::string& body) {
    transport::Inbox inbox;
    const auto reply = client.Do([](transport::NatsClient& nats) { return nats.NewInbox(); });
    client.Subscribe(reply, inbox);
    EXPECT_TRUE(client.Publish("$JS.API.STREAM." + what + "." + stream, body, reply).has_value());
    return Json::parse(inbox.WaitFor(1).at(0).payload);
  };
  ASSERT_TRUE(
      Eventually([&] { return ask("INFO", "")["state"]["messages"].get<double>() == published; }));
  transport::Inbox live;
  client.Subscribe(stream + ".kv-events", live);
  ASSERT_TRUE(client.Flush());
  Load(*worker, 2, 1);
  const auto next = Json::parse(live.WaitFor(1).at(0).payload);
  EXPECT_EQ(next["event"]["event_id"].get<double>(), published + 1);
  EXPECT_EQ(next["storage_tier"], "device");
  EXPECT_FALSE(next.contains("residency_domain"));
}

TEST_F(EventPlanes, DurableModeNeedsJetStream) {
  const auto worker = Launch({"--durable-kv-events", "--dynamo-release", "1.3"});
  EXPECT_EQ(worker->WaitExit(), 1);
  EXPECT_EQ(worker->CountErr("the NATS server has no JetStream"), 1U);
}

}  // namespace
}  // namespace understudy::worker
