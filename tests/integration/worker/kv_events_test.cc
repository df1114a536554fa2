// KV events of the real worker as routers of both releases get them, and their recovery queries.
// Source: events.md 3, 4; M-032, M-034, M-037.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/event_records.h"

#include <csignal>
#include <fstream>
#include <random>
#include <sstream>

namespace understudy::worker {
namespace {

/// A cache that a few requests fill.
const Arguments kSmall =
    kFree +
    Arguments{"--num-gpu-blocks-override", "64", "--block-size", "4", "--engine-threads", "1"};

class KvEvents : public WorkerTest {
 protected:
  EventReader& reader() {
    if (!reader_) {
      reader_ = std::make_unique<EventReader>(nats().url(), ns());
    }
    return *reader_;
  }
  QueryCaller& router() {
    if (!router_) {
      router_ = std::make_unique<QueryCaller>(nats().url());
    }
    return *router_;
  }
  /// Values of a bucket, parsed.
  std::vector<Json> Values(const std::string& bucket) const {
    std::vector<Json> values;
    for (const auto& name : Records(bucket)) {
      std::ifstream file(folder().path() + "/v1/" + bucket + "/" + name);
      std::ostringstream text;
      text << file.rdbuf();
      values.push_back(Json::parse(text.str(), nullptr, false));
    }
    return values;
  }
  /// Where the rank is asked, as its instance record says.
  std::string QuerySubject(const std::string& name) const {
    for (const auto& record : Values("instances")) {
      if (record["endpoint"].get<std::string>().starts_with(name)) {
        return record["transport"]["nats_tcp"];
      }
    }
    return {};
  }
  std::string Subject13(std::uint32_t rank = 0) const {
    return QuerySubject("worker_kv_indexer_query_dp" + std::to_string(rank));
  }
  std::string Subject16() const { return QuerySubject("worker_kv_query_source_"); }
  static transport::KvQuery Query(const WorkerProcess& worker, std::uint32_t rank = 0) {
    transport::KvQuery query;
    query.worker_id = std::stoull(worker.Instances().at(0), nullptr, 16);
    query.dp_rank = rank;
    return query;
  }
  /// Requests with prompts that share prefixes, more than the cache holds; all at once, or each
  /// when the one before it has ended.
  void Load(const WorkerProcess& worker,
            std::uint32_t seed,
            std::uint32_t requests,
            bool in_turn = false) {
    std::mt19937 generator(seed);
    const auto random = [&](std::uint32_t below) {
      return static_cast<std::uint32_t>(generator() % below);
    };
    std::vector<CallPtr> calls;
    for (std::uint32_t i = 0; i < requests; ++i) {
      auto spec = Spec(worker, 0, 1 + random(12));
      spec.request.token_ids = Prompt(4 * (1 + random(4)), random(6));
      const auto tail = Prompt(random(12), 100 + random(20));
      spec.request.token_ids.insert(spec.request.token_ids.end(), tail.begin(), tail.end());
      calls.push_back(frontend().Send(spec));
      if (in_turn) {
        ASSERT_TRUE(calls.back()->WaitClosed());
        ASSERT_TRUE(worker.WaitIdle());
      }
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->error(), "");
    }
    ASSERT_TRUE(worker.WaitIdle());
  }
  /// Until what was published tells of as many events as the worker counts.
  bool WaitAllEvents(const WorkerProcess& worker, bool in_16) {
    return reader().Wait([&] {
      return worker.Metric("understudy_kv_events_published_total") ==
             static_cast<double>(reader().KvEvents(in_16).size());
    });
  }
  static void ExpectContiguous(const std::vector<transport::RouterEvent>& events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_EQ(events[i].event_id, i + 1);
    }
  }

 private:
  std::unique_ptr<EventReader> reader_;
  std::unique_ptr<QueryCaller> router_;
};

TEST_F(KvEvents, M032_GoOutInTheFormOfEachReleaseWithTheSameIds) {
  reader();
  const auto worker = Start(kSmall);
  Load(*worker, 1, 60);
  ASSERT_TRUE(WaitAllEvents(*worker, false));
  ASSERT_TRUE(WaitAllEvents(*worker, true));
  const auto old = reader().KvEvents(false);
  const auto newer = reader().KvEvents(true);
  ExpectContiguous(old);
  ASSERT_EQ(old.size(), newer.size());
  std::size_t removed = 0;
  for (std::size_t i = 0; i < old.size(); ++i) {
    EXPECT_EQ(old[i].blocks, newer[i].blocks);
    EXPECT_EQ(old[i].parent, newer[i].parent);
    EXPECT_EQ(old[i].kind, newer[i].kind);
    EXPECT_EQ(newer[i].domain, transport::ResidencyDomain::kWorker);
    removed += old[i].kind == transport::RouterEvent::Kind::kRemoved ? 1U : 0U;
  }
  EXPECT_GT(removed, 0U);
  EXPECT_EQ(Value(old[0].worker_id), Query(*worker).worker_id);
  EXPECT_EQ(reader().Of("kv-events", false)[0].subject,
            "namespace." + ns() + ".component.backend.kv-events");
  EXPECT_EQ(reader().Of("kv-events", true)[0].subject,
            "namespace." + ns() + ".component.backend.endpoint.generate.kv-events");
}

TEST_F(KvEvents, EachPublisherHasItsIdAndSequence) {
  reader();
  const auto worker = Start(kSmall + Arguments{"--data-parallel-size", "2"});
  Load(*worker, 2, 20);
  for (const bool in_16 : {false, true}) {
    std::map<std::uint64_t, std::uint64_t> next;
    for (const auto& message : reader().Of("kv-events", in_16)) {
      EXPECT_EQ(message.envelope.sequence, next[message.envelope.publisher_id]++);
      EXPECT_EQ(message.envelope.topic, "kv-events");
    }
    EXPECT_EQ(next.size(), 2U) << "one per rank";
    for (const auto& [id, count] : next) {
      EXPECT_TRUE(!in_16 || id < std::uint64_t{1} << 53U);
    }
  }
  for (const std::uint32_t rank : {0U, 1U}) {
    ExpectContiguous(reader().KvEvents(false, rank));
    ExpectContiguous(reader().KvEvents(true, rank));
  }
}

struct CacheCase {
  const char* name;
  const char* semantics;
  const char* engine;
  bool copies;  ///< the engine may cache a block twice: one that was computed again, or by two
};
class KvEventsOf : public KvEvents,
                   public ::testing::WithParamInterface<std::tuple<std::uint32_t, CacheCase>> {};
INSTANTIATE_TEST_SUITE_P(
    Seeds,
    KvEventsOf,
    ::testing::Combine(::testing::Range(10U, 14U),
                       ::testing::Values(CacheCase{"Vllm13", "1.3", "vllm", false},
                                         CacheCase{"Vllm16", "1.6", "vllm", true},
                                         CacheCase{"Trtllm16InTurn", "1.6", "trtllm", false})),
    [](const auto& param) {
      return std::get<1>(param.param).name + std::string("Seed") +
             std::to_string(std::get<0>(param.param));
    });

TEST_P(KvEventsOf, U14ADumpIsWhatTheEngineHoldsAndWhatTheEventsSay) {
  reader();
  const auto& [seed, engine] = GetParam();
  const auto worker = Start(
      kSmall + Arguments{"--engine-semantics", engine.semantics, "--engine-type", engine.engine});
  Load(*worker, seed, 80, /*in_turn=*/std::string(engine.engine) == "trtllm");
  ASSERT_TRUE(WaitAllEvents(*worker, false));
  const auto told = Apply(reader().KvEvents(false));
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    for (const auto& subject : {Subject13(), Subject16()}) {
      const Json dump = router().Ask(subject, codec, Query(*worker))["TreeDump"];
      EXPECT_EQ(BlocksOfDump(dump), told) << subject;
      EXPECT_EQ(dump["last_event_id"], reader().KvEvents(false).back().event_id);
      EXPECT_EQ(dump.contains("reset_scope"), subject == Subject16());
    }
  }
  const auto state = Json::parse(worker->DumpState());
  const Json& cached = state["engine"]["threads"][0]["ranks"][0]["blocks_cached"];
  if (engine.copies) {
    EXPECT_GE(cached, told.size());
  } else {
    EXPECT_EQ(cached, told.size());
  }
  // Leaves were evicted before their parents: none was stored behind one that is gone.
  EXPECT_EQ(worker->Metric("understudy_kv_events_doubtful"), 0.0);
}

TEST_F(KvEvents, M034_ARangeBringsTheMissedEvents) {
  reader();
  const auto worker = Start(kSmall);
  Load(*worker, 3, 30);
  ASSERT_TRUE(WaitAllEvents(*worker, false));
  const auto events = reader().KvEvents(false);
  auto query = Query(*worker);
  query.start_event_id = 5;
  const Json answer = router().Ask(Subject13(), PayloadCodec::kJson, query)["Events"];
  ASSERT_EQ(answer["events"].size(), events.size() - 4);
  for (std::size_t i = 4; i < events.size(); ++i) {
    std::string text;
    transport::AppendRouterEventJson(text, events[i], transport::kRouterEventForm13);
    EXPECT_EQ(answer["events"][i - 4], Json::parse(text));
  }
  query.start_event_id = 1'000'000;
  EXPECT_EQ(router().Ask(Subject16(), PayloadCodec::kMsgpack, query)["TooNew"]["newest_available"],
            events.size());
}

// Nothing else happens that could push it out.
TEST_F(KvEvents, U25TheOnlyEventOfAnIdleWorkerLeavesAtOnce) {
  ASSERT_TRUE(reader().WaitConnected());
  const auto worker = Start(kSmall);
  auto spec = Spec(*worker, 0, 1);
  spec.request.token_ids = Prompt(4, 25);
  ASSERT_TRUE(frontend().Send(spec)->WaitClosed());
  for (const bool in_16 : {false, true}) {
    EXPECT_TRUE(reader().Wait([&] { return reader().KvEvents(in_16).size() == 1; }));
  }
}

TEST_F(KvEvents, U15AnswersUnderLoadNameTheirRealLastEvent) {
  reader();
  const auto worker = Start(kSmall);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 24; ++i) {
    auto spec = Spec(*worker, 0, 3000);
    spec.request.token_ids = Prompt(20, i);
    calls.push_back(frontend().Send(spec));
  }
  std::vector<Json> dumps;
  for (int i = 0; i < 10; ++i) {
    dumps.push_back(router().Ask(Subject13(), PayloadCodec::kMsgpack, Query(*worker))["TreeDump"]);
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
  }
  ASSERT_TRUE(worker->WaitIdle());
  ASSERT_TRUE(WaitAllEvents(*worker, false));
  const auto events = reader().KvEvents(false);
  for (const Json& dump : dumps) {
    const std::uint64_t last = dump["last_event_id"];
    ASSERT_LE(last, events.size());
    EXPECT_EQ(BlocksOfDump(dump),
              Apply({events.begin(), events.begin() + static_cast<long>(last)}));
  }
}

TEST_F(KvEvents, AWrongQueryIsToldWhatIsWrong) {
  const auto worker = Start(kFree);
  EXPECT_EQ(router()
                .Ask(Subject13(), PayloadCodec::kJson, std::string("{"))["Error"]
                .get<std::string>()
                .rfind("KV query: ", 0),
            0U);
  EXPECT_EQ(router().Ask(Subject16(),
                         PayloadCodec::kMsgpack,
                         std::string("\x81\xa3"
                                     "foo\x01"))["Error"],
            "KV query: worker_id: missing");
  auto query = Query(*worker);
  query.worker_id = 5;
  EXPECT_TRUE(
      router().Ask(Subject13(), PayloadCodec::kJson, query)["Error"].get<std::string>().starts_with(
          "WorkerKvQueryEngine::generate worker_id mismatch"));
  EXPECT_EQ(WhyNotServing(*worker), "");
}

// The ids go on, and the newest event is said again so that a router that lost some asks.
TEST_F(KvEvents, U22IdsGoOnOverARestartOfTheServer) {
  UseNats();
  reader();
  const auto worker = Start(kSmall);
  Load(*worker, 4, 10);
  ASSERT_TRUE(WaitAllEvents(*worker, false));
  const auto before = reader().KvEvents(false);
  nats().Kill();
  ASSERT_TRUE(worker->WaitMetric("understudy_nats_links_lost_total", 2));
  ASSERT_TRUE(nats().Restart());
  ASSERT_TRUE(Eventually([&] { return worker->CountErr("NATS reconnected") == 2; }));
  ASSERT_TRUE(reader().WaitConnected());
  ASSERT_TRUE(frontend().WaitConnected());
  Load(*worker, 5, 10);
  const auto published = worker->Metric("understudy_kv_events_published_total");
  ASSERT_TRUE(reader().Wait(
      [&] { return static_cast<double>(reader().KvEvents(false).back().event_id) == published; }));
  std::uint64_t last = before.back().event_id;
  for (std::size_t i = before.size(); i < reader().KvEvents(false).size(); ++i) {
    const auto id = reader().KvEvents(false)[i].event_id;
    EXPECT_TRUE(id == last || id == last + 1) << id << " after " << last;
    last = id;
  }
  auto query = Query(*worker);
  query.start_event_id = before.back().event_id + 1;
  const Json answer = router().Ask(Subject13(), PayloadCodec::kJson, query);
  EXPECT_EQ(answer["Events"]["events"][0]["event"]["event_id"], before.back().event_id + 1);
}

TEST_F(KvEvents, U16RecordsTellWhereEventsComeFromAndLeaveWithTheWorker) {
  const auto worker = Start(kFree + Arguments{"--data-parallel-size", "2"});
  std::map<std::string, int> channels;
  for (const auto& record : Values("event_channels")) {
    const auto channel = transport::DecodeEventChannel(record.dump());
    ASSERT_TRUE(channel.has_value()) << channel.error().message;
    const bool of_16 = channel->channel.scope == transport::EventScope::kEndpoint;
    ++channels[channel->channel.topic + (of_16 ? " 1.6" : " 1.3")];
  }
  EXPECT_EQ(channels,
            (std::map<std::string, int>{{"kv-events 1.3", 2},
                                        {"kv-events 1.6", 2},
                                        {"kv_metrics 1.3", 1},
                                        {"kv_metrics 1.6", 1},
                                        {"forward-pass-metrics 1.3", 1},
                                        {"forward-pass-metrics 1.6", 1},
                                        {"active_sequences_events 1.6", 1}}));
  const auto sources = Values("event_sources");
  ASSERT_EQ(sources.size(), 2U);
  for (const auto& source : sources) {
    const auto& metadata = source["metadata"];
    EXPECT_EQ(metadata["worker"]["worker_id"], Query(*worker).worker_id);
    const std::string name = metadata["recovery_target"]["endpoint"];
    EXPECT_EQ(
        name,
        "worker_kv_query_source_" + transport::HexId(source["publisher_id"].get<std::uint64_t>()));
    EXPECT_EQ(QuerySubject(name), metadata["recovery_target"]["transport"]["nats_tcp"]);
  }
  const auto card = Values("mdc")[0]["card_json"]["runtime_config"];
  EXPECT_EQ(card["enable_local_indexer"], true);
  EXPECT_EQ(card["kv_event_publishing_enabled"], true);
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  for (const auto* bucket : {"event_channels", "event_sources", "instances", "mdc"}) {
    EXPECT_TRUE(Records(bucket).empty()) << bucket;
  }
}

TEST_F(KvEvents, AreAnsweredForWhileStreamsDrain) {
  const auto worker = Start(Arguments{"--block-size", "4"});
  const auto call = Send(*worker, 40, 400);
  ASSERT_TRUE(call->WaitTokens(2));
  const auto subject = Subject13();
  worker->Signal(SIGTERM);
  ASSERT_TRUE(worker->WaitErr("Phase 2: draining"));
  EXPECT_TRUE(router().Ask(subject, PayloadCodec::kJson, Query(*worker)).contains("TreeDump"));
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(400), "");
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(KvEvents, OfOneReleaseOnlyAreThoseOfThatRelease) {
  reader();
  for (const std::string release : {"1.3", "1.6"}) {
    const bool in_16 = release == "1.6";
    const auto others = reader().KvEvents(!in_16).size();
    const auto worker = Start(kSmall + Arguments{"--dynamo-release", release});
    Load(*worker, 6, 5);
    ASSERT_TRUE(reader().Wait([&] { return !reader().KvEvents(in_16).empty(); }));
    EXPECT_EQ(reader().KvEvents(!in_16).size(), others);
    EXPECT_EQ(Subject13().empty(), in_16);
    EXPECT_EQ(Subject16().empty(), !in_16);
    EXPECT_EQ(
        Values("mdc")[0]["card_json"]["runtime_config"].contains("kv_event_publishing_enabled"),
        in_16);
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0);
  }
}

TEST_F(KvEvents, U16AreNotPromisedWithoutAPrefixCache) {
  reader();
  const auto worker = Start(kSmall + Arguments{"--no-enable-prefix-caching"});
  Load(*worker, 7, 5);
  EXPECT_TRUE(reader().KvEvents(false).empty());
  EXPECT_EQ(Subject13(), "");
  EXPECT_EQ(Values("mdc")[0]["card_json"]["runtime_config"]["enable_local_indexer"], false);
  EXPECT_TRUE(Records("event_sources").empty());
}

// Four prompts of 8 blocks in a device of 16 and a host of 256.
TEST_F(KvEvents, HostMemoryKeepsWhatTheDeviceLostAndRoutersAreToldOfBoth) {
  reader();
  const auto worker = Start({"--num-gpu-blocks-override",
                             "16",
                             "--block-size",
                             "4",
                             "--num-host-blocks",
                             "256",
                             "--kv-bytes-per-token",
                             "1000",
                             "--speedup-ratio",
                             "100"});
  const auto cached = [&](std::uint32_t seed) {
    auto spec = Spec(*worker, 0, 4);
    spec.request.token_ids = Prompt(33, seed);
    const auto call = frontend().Send(spec);
    EXPECT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(4), "");
    EXPECT_TRUE(worker->WaitIdle());
    return call->usage() ? call->usage()->cached_tokens : 0xFFFFFFFFU;
  };
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(cached(seed), 0U) << seed;
  }
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(cached(seed), 32U) << seed;
  }
  ASSERT_TRUE(WaitAllEvents(*worker, true));
  std::map<StorageTier, std::set<std::uint64_t>> held;
  for (const auto& event : reader().KvEvents(true)) {
    for (const auto& block : event.blocks) {
      if (event.kind == transport::RouterEvent::Kind::kStored) {
        held[event.tier].insert(Value(block.block_hash));
      } else {
        held[event.tier].erase(Value(block.block_hash));
      }
    }
  }
  EXPECT_EQ(held[StorageTier::kHostPinned].size(), 4U * 8U);
  EXPECT_GE(held[StorageTier::kDevice].size(), 8U);
  EXPECT_LE(held[StorageTier::kDevice].size(), 16U);
}

TEST_F(KvEvents, M037_DecodeWorkersSayNothingAndTheirCardsSaySo) {
  reader();
  const auto worker = Start(kSmall + Arguments{"--disaggregation-mode", "decode"});
  Load(*worker, 7, 5);
  EXPECT_EQ(worker->Metric("understudy_kv_events_published_total"), 0.0);
  EXPECT_TRUE(reader().KvEvents(false).empty());
  EXPECT_TRUE(reader().KvEvents(true).empty());
  EXPECT_EQ(Values("mdc")[0]["card_json"]["runtime_config"]["enable_local_indexer"], false);
}

TEST_F(KvEvents, ManyRanksShareTheSubscriptionOfTheirQueries) {
  reader();
  const auto worker = Start(kSmall + Arguments{"--data-parallel-size", "12"});
  Load(*worker, 8, 24);
  for (const std::uint32_t rank : {0U, 7U, 11U}) {
    const Json dump =
        router().Ask(Subject13(rank), PayloadCodec::kJson, Query(*worker, rank))["TreeDump"];
    EXPECT_EQ(BlocksOfDump(dump), Apply(reader().KvEvents(false, rank)));
  }
}

TEST_F(KvEvents, AWindowJoinsWhatComesSoonAfterEachOther) {
  reader();
  const auto worker =
      Start(kSmall + Arguments{"--engine-semantics",
                               "1.3",  // which caches a block once: the dump can be counted
                               "--kv-batching-window-ms",
                               "20",
                               "--kv-batching-blocks",
                               "64"});
  Load(*worker, 9, 40);
  const auto all_told = [&] {
    const Json dump = router().Ask(Subject13(), PayloadCodec::kJson, Query(*worker))["TreeDump"];
    return dump["last_event_id"] == reader().KvEvents(false).size() &&
           BlocksOfDump(dump).size() ==
               Json::parse(
                   worker->DumpState())["engine"]["threads"][0]["ranks"][0]["blocks_cached"];
  };
  EXPECT_TRUE(reader().Wait(all_told));
  ExpectContiguous(reader().KvEvents(false));
}

}  // namespace
}  // namespace understudy::worker
