// `understudy relay` as a process of its own beside an engine, which the test plays, and a worker
// that discovery lists. Source: events.md 1, 3, 4; U5, U7 to U10, U18, U23.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/zmq.h"
#include "worker/kv_relay/engine_publisher.h"

#include <csignal>
#include <fstream>
#include <iterator>

namespace understudy::worker {
namespace {

constexpr std::uint32_t kBlockSize = 4;

transport::EngineKvEvent StoredBlock(std::uint64_t hash) {
  transport::EngineKvStored event;
  event.hashes = {BlockHash{hash}};
  event.tokens = {1, 2, 3, static_cast<std::uint32_t>(hash)};
  event.block_size = kBlockSize;
  event.scope.medium = "GPU";
  return event;
}

/// A rank of an engine, on a loop of its own. Ports stay the same over a restart.
class PlayedEngine {
 public:
  explicit PlayedEngine(std::uint32_t dp_rank = 0, std::uint16_t port = 0) : dp_rank_(dp_rank) {
    events_port_ = port != 0 ? port : FreePort();
    replay_port_ = FreePort();
    Start();
  }
  ~PlayedEngine() { Kill(); }
  PlayedEngine(const PlayedEngine&) = delete;
  PlayedEngine& operator=(const PlayedEngine&) = delete;

  static std::uint16_t FreePort() { return fakes::FreePort().value(); }
  [[nodiscard]] std::string events() const {
    return "tcp://127.0.0.1:" + std::to_string(events_port_);
  }
  [[nodiscard]] std::string replay() const {
    return "tcp://127.0.0.1:" + std::to_string(replay_port_);
  }

  /// Tries until the ports are free: libzmq closes sockets a moment after we did.
  void Start() {
    EXPECT_TRUE(Eventually([&] {
      return thread_.Do([&] {
        EnginePublisher::Options options;
        options.dp_rank = DpRank{dp_rank_};
        options.host = "127.0.0.1";
        options.port = events_port_;
        options.replay_port = replay_port_;
        auto made = EnginePublisher::New(thread_.loop(), context_, options);
        if (made) {
          publisher_ = std::move(*made);
        }
        return made.has_value();
      });
    }));
  }
  void Kill() {
    thread_.Do([this] { publisher_.reset(); });
  }
  void Say(std::vector<transport::EngineKvEvent> events) {
    thread_.Do([&] { publisher_->Publish(events, 1.0); });
  }
  void Store(std::uint64_t hash) { Say({StoredBlock(hash)}); }

 private:
  std::uint32_t dp_rank_;
  std::uint16_t events_port_ = 0, replay_port_ = 0;
  fakes::LoopThread thread_;
  std::shared_ptr<transport::ZmqContext> context_ = transport::ZmqContext::New();
  std::unique_ptr<EnginePublisher> publisher_;
};

class Relay : public WorkerTest {
 protected:
  EventReader& reader() {
    if (!reader_) {
      reader_ = std::make_unique<EventReader>(nats().url(), ns());
    }
    return *reader_;
  }
  /// A worker without events of its own.
  Worker Told() { return Start({"--no-enable-prefix-caching", "--block-size", "4"}); }
  static std::uint64_t IdOf(const WorkerProcess& worker) {
    return std::stoull(worker.Instances().at(0), nullptr, 16);
  }
  Worker StartRelay(const Arguments& more) { return Start(Arguments{"relay"} + more); }
  Worker StartRelay(const PlayedEngine& engine, const Arguments& more = {}) {
    return StartRelay(
        Arguments{"--zmq-endpoint", engine.events(), "--zmq-replay-endpoint", engine.replay()} +
        more);
  }
  /// What routers of a release know of a worker's rank.
  BlockSet Known(std::uint64_t worker_id, bool in_16, std::uint32_t rank = 0) {
    auto events = reader().KvEvents(in_16, rank);
    std::erase_if(events, [&](const auto& e) { return Value(e.worker_id) != worker_id; });
    return Apply(events);
  }
  ::testing::AssertionResult WaitKnown(std::uint64_t worker_id,
                                       const BlockSet& blocks,
                                       std::uint32_t rank = 0) {
    for (const bool in_16 : {false, true}) {
      if (!reader().Wait([&] { return Known(worker_id, in_16, rank) == blocks; })) {
        return ::testing::AssertionFailure()
               << Known(worker_id, in_16, rank).size() << " blocks are known of rank " << rank;
      }
    }
    return ::testing::AssertionSuccess();
  }
  /// The records of a bucket that hold `text`.
  std::vector<Json> Holding(const std::string& bucket, const std::string& text) const {
    std::vector<Json> found;
    for (const auto& name : Records(bucket)) {
      std::ifstream file(folder().path() + "/v1/" + bucket + "/" + name);
      const std::string value((std::istreambuf_iterator<char>(file)), {});
      if (value.find(text) != std::string::npos) {
        found.push_back(Json::parse(value, nullptr, false));
      }
    }
    return found;
  }
  std::size_t CountRecords(const std::string& bucket, const std::string& text) const {
    return Holding(bucket, text).size();
  }
  std::string QuerySubject(const std::string& endpoint) const {
    const auto found = Holding("instances", endpoint);
    return found.empty() ? "" : found.front()["transport"]["nats_tcp"].get<std::string>();
  }
  void ExpectRefused(const Arguments& arguments, const std::string& why) {
    const auto relay = Launch(Arguments{"relay"} + arguments);
    EXPECT_EQ(relay->WaitExit(), 2) << relay->err();
    EXPECT_NE(relay->err().find(why), std::string::npos) << relay->err();
  }

 private:
  std::unique_ptr<EventReader> reader_;
};

TEST_F(Relay, U5TellsOfTheOnlyInstanceWhatItsEngineSaidBeforeAndSaysNow) {
  reader();
  PlayedEngine engine;
  for (std::uint64_t hash = 1; hash <= 7; ++hash) {
    engine.Store(hash);  // nobody listens yet, and nothing more is said
  }
  const auto told = Told();
  const auto relay = StartRelay(engine);
  EXPECT_EQ(relay->Ready("instance"), told->Instances().at(0));
  EXPECT_TRUE(WaitKnown(IdOf(*told), {1, 2, 3, 4, 5, 6, 7}));
  engine.Say({StoredBlock(8), transport::EngineKvRemoved{{}, {BlockHash{3}}}});
  EXPECT_TRUE(WaitKnown(IdOf(*told), {1, 2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(relay->Metric("understudy_engine_batches_total", "outcome=\"lost\""), 0.0);
  EXPECT_EQ(relay->Metric("understudy_engine_batches_total", "outcome=\"replayed\""), 7.0);
  EXPECT_EQ(relay->Metric("dynamo_component_kv_publisher_zmq_events_total",
                          "event_type=\"stored\",stage=\"accepted\""),
            8.0);
}

TEST_F(Relay, AnswersForTheWorkerInBothFormsUnderItsOwnInstance) {
  reader();
  PlayedEngine engine;
  const auto told = Told();
  const auto relay = StartRelay(engine, {"--block-size", "4"});
  engine.Store(1);
  engine.Store(2);
  ASSERT_TRUE(WaitKnown(IdOf(*told), {1, 2}));
  QueryCaller router(nats().url());
  transport::KvQuery query;
  query.worker_id = IdOf(*told);
  for (const std::string endpoint : {"worker_kv_indexer_query_dp0", "worker_kv_query_source_"}) {
    const auto subject = QuerySubject(endpoint);
    const auto dump = router.Ask(subject, PayloadCodec::kMsgpack, query)["TreeDump"];
    ASSERT_FALSE(dump.is_null()) << subject << " " << router.ack();
    EXPECT_EQ(BlocksOfDump(dump), (BlockSet{1, 2}));
    EXPECT_EQ(dump["last_event_id"], 2);
  }
  const auto own = relay->Ready("relay");
  EXPECT_NE(own, told->Instances().at(0));
  EXPECT_EQ(
      CountRecords("instances", "worker_kv_indexer_query_dp0_worker" + std::to_string(IdOf(*told))),
      1U);
  EXPECT_EQ(CountRecords("instances", own), 2U) << "in their subjects";
  EXPECT_EQ(CountRecords("event_sources", "kv-events"), 1U);
  relay->Signal(SIGTERM);
  EXPECT_EQ(relay->WaitExit(), 0);
  EXPECT_EQ(CountRecords("instances", "worker_kv_"), 0U);
  EXPECT_EQ(CountRecords("event_channels", "kv-events"), 0U);
  EXPECT_EQ(CountRecords("event_sources", ""), 0U);
  EXPECT_EQ(WhyNotServing(*told), "");
}

TEST_F(Relay, U17EachRankOfTheEngineHasItsPortAndItsIds) {
  reader();
  const std::uint16_t base = fakes::FreePorts(2).value();
  PlayedEngine first(0, base);
  PlayedEngine second(1, static_cast<std::uint16_t>(base + 1));
  const auto told =
      Start({"--no-enable-prefix-caching", "--block-size", "4", "--data-parallel-size", "2"});
  const auto relay = StartRelay({"--zmq-endpoint", first.events()});
  // Without a replay socket: what is said before the sockets are connected is lost.
  std::uint64_t hash = 0;
  ASSERT_TRUE(Eventually([&] {
    first.Store(++hash);
    second.Store(1000 + hash);
    return !Known(IdOf(*told), true, 0).empty() && !Known(IdOf(*told), true, 1).empty();
  }));
  first.Store(500);
  second.Store(1500);
  for (const std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(reader().Wait(
        [&] { return Known(IdOf(*told), true, rank).count(500 + 1000 * rank) == 1; }));
    const auto events = reader().KvEvents(true, rank);
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].event_id, i + 1);
    }
    // Exactly what was lost is counted: the numbers of an engine begin at 0.
    const auto heard = Known(IdOf(*told), true, rank).size();
    EXPECT_EQ(heard, events.size());
  }
  const auto heard = Known(IdOf(*told), true, 0).size() + Known(IdOf(*told), true, 1).size();
  EXPECT_EQ(relay->Metric("understudy_engine_batches_total", "outcome=\"lost\""),
            static_cast<double>(2 * (hash + 1) - heard));
}

TEST_F(Relay, U7AnEngineThatStartsAnewLeavesNoGhosts) {
  reader();
  PlayedEngine engine;
  const auto told = Told();
  const auto relay = StartRelay(engine);
  for (std::uint64_t hash = 1; hash <= 10; ++hash) {
    engine.Store(hash);
  }
  ASSERT_TRUE(WaitKnown(IdOf(*told), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  engine.Kill();
  engine.Start();
  engine.Store(21);
  ASSERT_TRUE(Eventually([&] {
    engine.Store(22);
    return Known(IdOf(*told), true).count(22) == 1;
  }));
  EXPECT_TRUE(WaitKnown(IdOf(*told), {21, 22}));
  EXPECT_EQ(relay->Metric("understudy_engine_restarts_total"), 1.0);
}

TEST_F(Relay, U8AClearedCacheIsClearedAtTheRouters) {
  reader();
  PlayedEngine engine;
  const auto told = Told();
  const auto relay = StartRelay(engine);
  engine.Store(1);
  ASSERT_TRUE(WaitKnown(IdOf(*told), {1}));
  engine.Say({transport::EngineKvCleared{}, StoredBlock(2)});
  EXPECT_TRUE(WaitKnown(IdOf(*told), {2}));
}

TEST_F(Relay, GoesWithItsInstanceAndSpeaksForTheNextOne) {
  reader();
  PlayedEngine engine;
  engine.Store(1);
  auto told = Told();
  const auto relay = StartRelay(engine);
  const auto first = IdOf(*told);
  ASSERT_TRUE(WaitKnown(first, {1}));
  EXPECT_EQ(relay->Get("/health").status, 200);
  told->Signal(SIGTERM);
  EXPECT_EQ(told->WaitExit(), 0);
  ASSERT_TRUE(Eventually([&] { return CountRecords("instances", "worker_kv_") == 0; }));
  EXPECT_EQ(CountRecords("event_channels", "kv-events"), 0U);
  EXPECT_EQ(relay->Get("/health").status, 503);
  told = Told();
  ASSERT_NE(IdOf(*told), first);
  EXPECT_TRUE(WaitKnown(IdOf(*told), {1}));
  EXPECT_TRUE(Eventually([&] { return relay->Get("/health").status == 200; }));
}

TEST_F(Relay, OfSeveralInstancesOneMustBeNamed) {
  reader();
  PlayedEngine engine;
  engine.Store(1);
  const auto one = Told();
  const auto other = Told();
  const auto waits = Launch({"relay", "--zmq-endpoint", engine.events()});
  EXPECT_TRUE(waits->WaitErr("several instances: --instance-id must say whose events these are"));
  const auto relay = StartRelay(engine, {"--instance-id", other->Instances().at(0)});
  EXPECT_TRUE(WaitKnown(IdOf(*other), {1}));
  EXPECT_TRUE(Known(IdOf(*one), true).empty());
}

TEST_F(Relay, WithoutFollowingItNeedsNoInstance) {
  reader();
  PlayedEngine engine;
  engine.Store(1);
  const auto relay =
      StartRelay(engine, {"--no-follow", "--instance-id", "abc", "--block-size", "4"});
  EXPECT_TRUE(WaitKnown(0xabc, {1}));
}

TEST_F(Relay, U9AndU10BadMessagesAreCountedAndTheNextGoodOneIsRelayed) {
  reader();
  fakes::LoopThread thread;
  const auto context = transport::ZmqContext::New();
  auto raw = thread.Do([&] { return std::move(*transport::ZmqPublisher::New(context, {})); });
  const auto endpoint = thread.Do([&] {
    EXPECT_TRUE(raw->Bind("tcp://127.0.0.1:*"));
    return raw->bound_endpoint();
  });
  const auto send = [&](const std::vector<std::string>& frames) {
    thread.Do([&] {
      const std::vector<std::string_view> views(frames.begin(), frames.end());
      return raw->Send(views);
    });
  };
  const auto payload = [](std::uint64_t hash) {
    const auto event = StoredBlock(hash);
    return transport::EncodeKvBatch(1.0, std::span(&event, 1), 0);
  };
  const auto told = Told();
  const auto relay = StartRelay({"--zmq-endpoint", endpoint});
  ASSERT_TRUE(Eventually([&] {
    send({"two frames", "only"});
    return relay->Metric("understudy_engine_batches_total", "outcome=\"unreadable\"") > 0.0;
  }));
  send({"", transport::SequenceFrame(0), "\xc1"});
  send({"", std::string(9, '\0'), payload(1)});
  send({"", transport::SequenceFrame(1), ""});
  send({"", transport::SequenceFrame(5), payload(5)});
  EXPECT_TRUE(WaitKnown(IdOf(*told), {5}));
  EXPECT_EQ(relay->Metric("understudy_engine_batches_total", "outcome=\"lost\""), 3.0);
  EXPECT_EQ(relay->CountErr("kv event batches that cannot be read"), 1U);
  thread.Do([&] { raw.reset(); });
}

TEST_F(Relay, U18SaysItsAddressesAndPlanesInOneLine) {
  PlayedEngine engine;
  const auto told = Told();
  const auto relay = StartRelay(engine);
  const auto line = relay->err().substr(relay->err().find("starting"));
  for (const std::string part : {"nats_server=nats://127.0.0.1:",
                                 "nats_server_from=NATS_SERVER",
                                 "event_plane=nats",
                                 "discovery=file"}) {
    EXPECT_LT(line.find(part), line.find('\n')) << part;
  }
  auto without = environment;
  without.erase("NATS_SERVER");
  WorkerProcess lost({"relay", "--zmq-endpoint", engine.events()}, without);
  EXPECT_TRUE(lost.WaitErr("nats_server=nats://localhost:4222 nats_server_from=default"));
  lost.Signal(SIGKILL);
  EXPECT_TRUE(lost.WaitExit()) << "whether it found a server there or not";
}

TEST_F(Relay, U23EndsAtOnceWithoutAnEngineAndWithADeadOne) {
  reader();
  for (const bool dies : {false, true}) {
    const auto told = Told();
    PlayedEngine engine;
    if (!dies) {
      engine.Kill();  // it was never there
    }
    const auto relay = StartRelay(engine);
    if (dies) {
      engine.Store(1);
      ASSERT_TRUE(WaitKnown(IdOf(*told), {1}));
      engine.Kill();
    }
    relay->Signal(SIGTERM);
    EXPECT_EQ(relay->WaitExit(), 0);
    EXPECT_EQ(relay->CountErr("terminate called"), 0U);
    EXPECT_EQ(relay->CountErr("not revoked"), 0U);
    told->Signal(SIGTERM);
    EXPECT_EQ(told->WaitExit(), 0);
  }
}

TEST_F(Relay, WrongUsageIsNamedWithItsOptionAndWhatIsAllowed) {
  ExpectRefused({}, "--zmq-endpoint is needed");
  ExpectRefused({"--zmq-endpoint", "127.0.0.1:5557"},
                "--zmq-endpoint '127.0.0.1:5557' is refused (allowed: tcp://host:port");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1,tcp://b:1"},
                "several entries of --zmq-endpoint need --instance-id");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1", "--zmq-replay-endpoint", "tcp://a:2,tcp://a:3"},
                "--zmq-replay-endpoint must have as many entries as --zmq-endpoint (1), got 2");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1", "--instance-id", "xyz"}, "--instance-id 'xyz'");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1,tcp://b:1", "--instance-id", "abc,"},
                "--instance-id ''");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1", "--no-follow"}, "--no-follow needs --instance-id");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1", "--event-plane", "kafka"},
                "--event-plane 'kafka' is refused (allowed: nats, zmq)");
  ExpectRefused({"--zmq-endpoint", "tcp://a:1", "--block-size", "0"},
                "--block-size must be between 1 and");
}

}  // namespace
}  // namespace understudy::worker
