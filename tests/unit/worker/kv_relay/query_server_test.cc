#include "worker/kv_relay/query_server.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_nats.h"
#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"
#include "tests/unit/worker/kv_relay/events.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Json = nlohmann::ordered_json;
using transport::PayloadCodec;
using transport::Peer;
using transport::PeerListener;

constexpr const char* kSubject13 = "ns_backend.worker_kv_indexer_query_dp0-4d";
constexpr const char* kSubject16 = "ns_backend.worker_kv_query_source_5-4d";

/// A query server on a loop of its own; routers are raw TCP peers.
class QueryServerTest : public ::testing::Test {
 protected:
  QueryServerTest() {
    thread_.Do([this] {
      relay_ =
          std::make_unique<KvRelay>(thread_.loop(), plane_, clock_, *metrics_, KvRelay::Options{});
      relay_->AddRank(WorkerId{77}, DpRank{0}, {});
      ingress_ = std::make_unique<Ingress>(nats_, *metrics_, clock_);
      server_ = std::make_unique<QueryServer>(thread_.loop(), *ingress_, *relay_, *metrics_);
      server_->Add(kSubject13, RankIndex{0}, transport::kKvAnswerForm13);
      server_->Add(kSubject16, RankIndex{0}, transport::kKvAnswerForm16);
    });
  }
  ~QueryServerTest() override {
    thread_.Do([this] {
      server_.reset();
      relay_.reset();
    });
  }

  void Store(std::uint64_t from, std::uint64_t to, std::size_t per_event = 1) {
    thread_.Do([&] {
      std::vector<RouterEvent> unit;
      for (auto hash = from; hash <= to; ++hash) {
        if ((hash - from) % per_event == 0) {
          unit.push_back(Stored({}, {}));
          unit.back().event_id = raw_++;
        }
        unit.back().blocks.push_back({BlockHash{hash}, TokensHash{hash}});
      }
      relay_->TakeUnit(RankIndex{0}, std::move(unit));
    });
  }
  static transport::KvQuery Query() {
    transport::KvQuery query;
    query.worker_id = 77;
    return query;
  }
  void Send(const std::string& subject, PayloadCodec codec, const std::string& body) {
    transport::RequestControl control;
    control.id = control.context = "id";
    control.codec = codec;
    control.response_type = "many_out";
    control.transport = "tcp_server";
    control.address = router_.address();
    control.subject = "subject";
    control.stream_type = "response";
    std::string payload;
    transport::AppendTwoPart(payload, transport::EncodeRequestControl(control), body);
    thread_.Do([&] {
      nats_.published.clear();
      ingress_->OnRequest({subject, "reply", std::as_bytes(std::span(payload)), [](const char*) {
                             return std::nullopt;
                           }});
    });
  }
  /// Frames of one connection.
  class FrameReader {
   public:
    explicit FrameReader(std::unique_ptr<Peer> peer) : peer_(std::move(peer)) {}
    /// The next one: header and body; empty when the connection ended before it.
    std::pair<std::string, std::string> Next() {
      constexpr std::size_t kBodyMax = std::size_t{1} << 30;
      if (!Have(transport::kTwoPartHeadBytes)) {
        return {};
      }
      const auto head = transport::ParseTwoPartHead(bytes_, kBodyMax);
      EXPECT_TRUE(head.has_value());
      if (!head || !Have(transport::kTwoPartHeadBytes + head->header_bytes + head->body_bytes)) {
        return {};
      }
      const auto frame = *transport::ParseTwoPart(bytes_, kBodyMax);
      std::pair<std::string, std::string> parts(frame.header, frame.body);
      bytes_.erase(0, frame.frame_bytes);
      return parts;
    }

   private:
    bool Have(std::size_t bytes) {
      if (bytes_.size() < bytes) {
        bytes_ += peer_->Read(bytes - bytes_.size());
      }
      return bytes_.size() >= bytes;
    }
    std::unique_ptr<Peer> peer_;
    std::string bytes_;
  };
  /// The item of the answer; the frames around it are checked.
  Json Read(PayloadCodec codec) {
    FrameReader frames(router_.Accept());
    EXPECT_EQ(frames.Next().first, R"({"subject":"subject","stream_type":"response"})");
    EXPECT_EQ(frames.Next().first, R"({"error":null})");
    const Json item = Parse(codec, frames.Next().second);
    EXPECT_EQ(Parse(codec, frames.Next().second), (Json{{"complete_final", true}}));
    EXPECT_EQ(frames.Next().first, R"("sentinel")");
    EXPECT_EQ(item["complete_final"], false);
    return item["data"];
  }
  static Json Parse(PayloadCodec codec, std::string_view body) {
    return codec == PayloadCodec::kJson ? Json::parse(body) : Json::from_msgpack(body);
  }
  Json Ask(const std::string& subject, PayloadCodec codec, const transport::KvQuery& query) {
    Send(subject, codec, transport::EncodeKvQuery(codec, query, subject == kSubject16));
    return Read(codec);
  }

  fakes::FakeNats nats_;
  fakes::FakeEventPlane plane_;
  SteadyClock clock_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  PeerListener router_;
  std::uint64_t raw_ = 0;
  fakes::LoopThread thread_;
  std::unique_ptr<KvRelay> relay_;
  std::unique_ptr<Ingress> ingress_;
  std::unique_ptr<QueryServer> server_;
};

TEST_F(QueryServerTest, AnswersInTheCodecOfTheQueryAndTheFormOfTheEndpoint) {
  Store(1, 3);
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    const Json old = Ask(kSubject13, codec, Query());
    EXPECT_EQ(old["TreeDump"]["events"].size(), 3U);
    EXPECT_EQ(old["TreeDump"]["last_event_id"], 3);
    EXPECT_FALSE(old["TreeDump"].contains("reset_scope"));
    const Json newer = Ask(kSubject16, codec, Query());
    EXPECT_EQ(newer["TreeDump"]["reset_scope"], "all");
    EXPECT_EQ(newer["TreeDump"]["events"][0]["residency_domain"], "worker");
    ASSERT_EQ(nats_.published.size(), 1U);
    EXPECT_EQ(nats_.published[0].payload, "");  // the acknowledgement
  }
}

TEST_F(QueryServerTest, AnswersRangesWithTheEventsThemselves) {
  Store(1, 6);
  auto query = Query();
  query.start_event_id = 4;
  query.end_event_id = 5;
  const Json answer = Ask(kSubject13, PayloadCodec::kJson, query);
  ASSERT_EQ(answer["Events"]["events"].size(), 3U);
  EXPECT_EQ(answer["Events"]["events"][0]["event"]["event_id"], 4);
  EXPECT_EQ(answer["Events"]["events"][0]["worker_id"], 77);
  query.start_event_id = 9;
  query.end_event_id.reset();
  EXPECT_EQ(Ask(kSubject13, PayloadCodec::kJson, query)["TooNew"]["newest_available"], 6);
  query.end_event_id = 8;
  EXPECT_EQ(Ask(kSubject13, PayloadCodec::kJson, query)["InvalidRange"]["end_id"], 8);
}

TEST_F(QueryServerTest, RefusesQueriesForOthers) {
  auto query = Query();
  query.worker_id = 5;
  EXPECT_EQ(Ask(kSubject13, PayloadCodec::kJson, query)["Error"],
            "WorkerKvQueryEngine::generate worker_id mismatch: request.worker_id=5 "
            "this.worker_id=77");
  query = Query();
  query.dp_rank = 1;
  EXPECT_EQ(Ask(kSubject16, PayloadCodec::kMsgpack, query)["Error"],
            "WorkerKvQueryEngine::generate dp_rank mismatch: request.dp_rank=1 this.dp_rank=0");
}

// The reference acknowledges and then says nothing.
TEST_F(QueryServerTest, TellsWhoAsksWronglyWhatIsWrong) {
  Send(kSubject13, PayloadCodec::kJson, "{");
  EXPECT_TRUE(Read(PayloadCodec::kJson)["Error"].get<std::string>().starts_with("KV query: "));
  Send(kSubject16,
       PayloadCodec::kMsgpack,
       "\x81\xa3"
       "foo\x01");
  EXPECT_EQ(Read(PayloadCodec::kMsgpack)["Error"], "KV query: worker_id: missing");
  EXPECT_NE(metrics_->Scrape(0).find(R"(understudy_kv_queries_total{answer="error"} 2)"),
            std::string::npos);
}

TEST_F(QueryServerTest, SendsAnswersThatAreLongerThanAConnectionMayHold) {
  constexpr std::uint64_t kBlocks = 300'000;
  Store(1, kBlocks, 500);
  const Json answer = Ask(kSubject13, PayloadCodec::kJson, Query());
  std::size_t blocks = 0;
  for (const Json& event : answer["TreeDump"]["events"]) {
    blocks += event["event"]["data"]["stored"]["blocks"].size();
  }
  EXPECT_EQ(blocks, kBlocks);
}

TEST_F(QueryServerTest, ManyAskAtOnceAndEachGetsItsAnswer) {
  Store(1, 5000);
  constexpr int kRouters = 20;
  for (int i = 0; i < kRouters; ++i) {
    const auto codec = i % 2 == 0 ? PayloadCodec::kJson : PayloadCodec::kMsgpack;
    Send(i % 3 == 0 ? kSubject13 : kSubject16,
         codec,
         transport::EncodeKvQuery(codec, Query(), false));
  }
  for (int i = 0; i < kRouters; ++i) {
    FrameReader frames(router_.Accept());
    for (int frame = 0; frame < 4; ++frame) {
      frames.Next();
    }
    EXPECT_EQ(frames.Next().first, R"("sentinel")");
  }
}

TEST_F(QueryServerTest, ForgetsARouterThatWentAway) {
  Store(1, 100'000, 500);
  Send(kSubject13,
       PayloadCodec::kJson,
       transport::EncodeKvQuery(PayloadCodec::kJson, Query(), false));
  router_.Accept().reset();
  while (thread_.Do([this] { return server_->open(); }) != 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Ask(kSubject13, PayloadCodec::kJson, Query())["TreeDump"]["last_event_id"], 200);
}

TEST_F(QueryServerTest, RefusesMoreThanItsLimitInTheAcknowledgement) {
  for (std::size_t i = 0; i <= QueryServer::kSessionsMax; ++i) {
    Send(kSubject13,
         PayloadCodec::kJson,
         transport::EncodeKvQuery(PayloadCodec::kJson, Query(), false));
  }
  ASSERT_EQ(nats_.published.size(), 1U);
  EXPECT_EQ(nats_.published[0].payload, "Server unavailable: too many recovery queries");
}

}  // namespace
}  // namespace understudy::worker
