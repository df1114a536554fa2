#include "tests/unit/worker/control/control_rig.h"

namespace understudy::worker {
namespace {

class ControlServerTest : public ControlRig {};

Json Op(const std::string& op, Json more = Json::object()) {
  Json body{{"version", 1}, {"op", op}};
  body.update(more);
  return body;
}

TEST_F(ControlServerTest, StatsAreAboutTheRanksOfTheWorker) {
  running_[1] = 3;
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    auto answer = Ask(kControl1, Op("stats"), codec);
    const Json item = answer.Item();
    answer.ExpectEnd();
    EXPECT_EQ(item["type"], "stats");
    EXPECT_EQ(item["state"], "serving");
    EXPECT_EQ(item["requests"], 3);
    ASSERT_EQ(item["ranks"].size(), 2U);
    EXPECT_EQ(item["ranks"][1],
              (Json{{"rank", 1},
                    {"requests_running", 4},
                    {"requests_waiting", 5},
                    {"blocks_used", 13},
                    {"blocks_cached", 20},
                    {"blocks_total", 100},
                    {"handoffs", 3},
                    {"sessions", 0}}));
  }
  EXPECT_EQ(Ask(kControl1, Op("stats", {{"rank", 1}})).Item()["ranks"].size(), 1U);
  EXPECT_EQ(Metric("understudy_control_requests_total{op=\"stats\"}"), 3.0);
}

TEST_F(ControlServerTest, StatsGoOnUntilTheCallerHasEnough) {
  auto answer = Ask(kControl0, Op("stats", {{"interval_ms", 10}}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.Item()["type"], "stats");
  }
  std::string kill;
  transport::AppendStreamControl(kill, transport::StreamControl::kKill);
  answer.peer().Send(kill);
  EXPECT_EQ(answer.peer().ReadToEnd(), Peer::End::kFin);
  Await([this] { return streams_->size() == 0; });
  const int reads = engine_.reads;
  thread_.Do([] {});
  EXPECT_LE(engine_.reads, reads + 1) << "one may have been under way";
}

TEST_F(ControlServerTest, ARankThatIsNotThereIsRefused) {
  EXPECT_EQ(Ask(kControl0, Op("stats", {{"rank", 2}})).Refusal("InvalidArgument"),
            "rank 2 is out of bounds for 2 ranks");
  EXPECT_EQ(Metric("understudy_control_refusals_total{reason=\"invalid\"}"), 1.0);
}

TEST_F(ControlServerTest, WhatCannotBeReadIsRefusedInItsCodec) {
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    EXPECT_EQ(
        Ask(kControl0, Json{{"version", 9}, {"op", "stats"}}, codec).Refusal("InvalidArgument"),
        "control request: version: 9 is not supported (supported: 1)");
  }
  auto payload = EnvelopeOf(controller_.address(), PayloadCodec::kJson, "");
  EXPECT_EQ(Send(kControl0, payload), "");
  const auto text =
      AnswerReader(controller_.Accept(), PayloadCodec::kJson).Refusal("InvalidArgument");
  EXPECT_TRUE(text.starts_with("control request: ")) << text;
}

TEST_F(ControlServerTest, ClearsTheRanksOfTheWorkerAndSaysHowMuch) {
  engine_.cleared[1] = {RankIndex{1}, 0, 9, true};
  auto answer = Ask(kControl0, Op("clear_kv_blocks", {{"in_use", "refuse"}}));
  const Json item = answer.Item();
  answer.ExpectEnd();
  EXPECT_EQ(item["type"], "cleared");
  EXPECT_EQ(item["ranks"][0],
            (Json{{"rank", 0}, {"blocks_cleared", 5}, {"blocks_in_use", 0}, {"refused", false}}));
  EXPECT_EQ(item["ranks"][1],
            (Json{{"rank", 1}, {"blocks_cleared", 0}, {"blocks_in_use", 9}, {"refused", true}}));
  EXPECT_EQ(engine_.asked_in_use, engine::InUse::kRefuse);
  EXPECT_EQ(Ask(kControl1, Op("clear_kv_blocks", {{"rank", 1}})).Item()["ranks"].size(), 1U);
  EXPECT_EQ(engine_.asked_in_use, engine::InUse::kKeep);
  EXPECT_EQ(Metric("understudy_kv_blocks_cleared_total"), 13.0);
}

TEST_F(ControlServerTest, ThePlainEndpointAnswersAsDynamosWorkersDo) {
  auto done = Ask(kClear0, Json());
  EXPECT_EQ(done.Item(), (Json{{"status", "success"}, {"message", "KV cache cleared"}}));
  done.ExpectEnd();
  EXPECT_EQ(engine_.asked_in_use, engine::InUse::kRefuse);
  engine_.cleared[1].refused = true;
  EXPECT_EQ(Ask(kClear0, Json::object(), PayloadCodec::kMsgpack).Item(),
            (Json{{"status", "error"}, {"message", "KV cache reset failed"}}));
  engine_.cleared.clear();
  EXPECT_EQ(Ask(kClear0, Json("x")).Item(),
            (Json{{"status", "error"}, {"message", "the engine is not running"}}));
}

TEST_F(ControlServerTest, DrainAndResumeSayWhetherTheyChangedSomething) {
  EXPECT_EQ(Ask(kControl0, Op("drain")).Item(),
            (Json{{"type", "state"}, {"state", "drained"}, {"changed", true}, {"requests", 0}}));
  EXPECT_EQ(serving_count_, 1U);
  EXPECT_EQ(Ask(kControl0, Op("drain")).Item()["changed"], false);
  EXPECT_EQ(Ask(kControl1, Op("stats")).Item()["state"], "serving") << "the other worker";
  EXPECT_EQ(Ask(kControl0, Op("resume")).Item(),
            (Json{{"type", "state"}, {"state", "serving"}, {"changed", true}, {"requests", 0}}));
  EXPECT_EQ(Ask(kControl0, Op("resume")).Item()["changed"], false);
  EXPECT_EQ(discovery_.calls,
            (std::vector<std::string>{"delete v1/instances/a", "put v1/instances/a={a}"}));
  EXPECT_EQ(serving_count_, 2U);
}

TEST_F(ControlServerTest, ADrainThatWaitsTellsWhenTheLastRequestHasEnded) {
  running_[0] = 2;
  auto answer = Ask(kControl0, Op("drain", {{"wait", true}}));
  EXPECT_EQ(answer.Item(),
            (Json{{"type", "state"}, {"state", "draining"}, {"changed", true}, {"requests", 2}}));
  running_[0] = 0;
  EXPECT_EQ(answer.Item()["state"], "drained");
  answer.ExpectEnd();
}

TEST_F(ControlServerTest, ADrainThatWaitsTellsThatSomebodyResumed) {
  running_[0] = 2;
  auto answer = Ask(kControl0, Op("drain", {{"wait", true}}));
  EXPECT_EQ(answer.Item()["state"], "draining");
  EXPECT_EQ(Ask(kControl0, Op("resume")).Item()["state"], "serving");
  EXPECT_EQ(answer.Item()["state"], "serving");
  answer.ExpectEnd();
}

TEST_F(ControlServerTest, HandOffsAreRefusedByAnEngineThatHasNone) {
  const Json body =
      Op("register_handoff", {{"handoff_id", "6f0c1a9e-3b52-4d0e-9a71-0123456789ab"}});
  EXPECT_EQ(Ask(kControl0, body).Refusal("InvalidArgument"), "this engine has no hand-offs");
}

TEST_F(ControlServerTest, WhileTheProcessEndsItTakesNothingThatStays) {
  thread_.Do([this] {
    serving_->Close();
    server_->Stopping();
  });
  EXPECT_EQ(Ask(kControl0, Op("drain")).Refusal("Unavailable"), "the worker is shutting down");
  EXPECT_EQ(Ask(kControl0, Op("resume")).Refusal("Unavailable"), "the worker is shutting down");
  const Json body =
      Op("register_handoff", {{"handoff_id", "6f0c1a9e-3b52-4d0e-9a71-0123456789ab"}});
  EXPECT_EQ(Ask(kControl0, body).Refusal("Unavailable"), "the worker is shutting down");
  EXPECT_EQ(Ask(kControl0, Op("stats")).Item()["type"], "stats");
}

TEST_F(ControlServerTest, ACallerThatFloodsIsRefusedAndOthersAreServed) {
  const auto flood = EnvelopeOf("127.0.0.1:no", PayloadCodec::kJson, Op("stats").dump());
  const auto acks = thread_.Do([&] {
    nats_.published.clear();
    for (std::size_t i = 0; i <= ControlStreams::kStreamsPerCallerMax; ++i) {
      ingress_->OnRequest({kControl0, "reply", std::as_bytes(std::span(flood)), [](const char*) {
                             return std::nullopt;
                           }});
    }
    return nats_.published;
  });
  ASSERT_EQ(acks.size(), ControlStreams::kStreamsPerCallerMax + 1);
  EXPECT_EQ(acks.front().payload, "");
  EXPECT_EQ(acks.back().payload, "Server unavailable: too many control requests");
  EXPECT_EQ(Metric("understudy_control_refusals_total{reason=\"overloaded\"}"), 1.0);
  EXPECT_EQ(Ask(kControl0, Op("stats")).Item()["type"], "stats");
  Await([this] { return streams_->size() <= 1; });  // that is no address
  EXPECT_EQ(Send(kControl0, flood), "");
}

TEST_F(ControlServerTest, AnswersThatStayHaveABoundOfTheirOwn) {
  running_[0] = 1;
  std::vector<std::unique_ptr<Peer>> held;
  // One address for each, so that the bound of a caller is not what is met.
  thread_.Do([&] {
    for (std::size_t i = 0; i < ControlStreams::kLongStreamsMax; ++i) {
      const auto body = EnvelopeOf("127.0.0.1:" + std::to_string(1 + i % 60000) + "x",
                                   PayloadCodec::kJson,
                                   Op("drain", {{"wait", true}}).dump());
      ingress_->OnRequest({kControl0, "reply", std::as_bytes(std::span(body)), [](const char*) {
                             return std::nullopt;
                           }});
    }
    const auto one_more = EnvelopeOf(
        controller_.address(), PayloadCodec::kJson, Op("stats", {{"interval_ms", 10}}).dump());
    ingress_->OnRequest({kControl0, "reply", std::as_bytes(std::span(one_more)), [](const char*) {
                           return std::nullopt;
                         }});
  });
  EXPECT_EQ(AnswerReader(controller_.Accept(), PayloadCodec::kJson).Refusal("ResourceExhausted"),
            "3584 answers that go on are open already");
}

TEST(ControlMetrics, FamiliesAreThese) {
  const auto text = ControlMetrics::New()->Scrape();
  std::string names;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos;) {
    at += 7;
    names += text.substr(at, text.find('\n', at) - at) + "\n";
  }
  EXPECT_EQ(names,
            "understudy_control_requests_total counter\n"
            "understudy_control_refusals_total counter\n"
            "understudy_kv_blocks_cleared_total counter\n"
            "understudy_control_streams_open gauge\n"
            "understudy_drained_workers gauge\n"
            "understudy_control_registrations gauge\n");
  for (const char* series : {"understudy_control_requests_total{op=\"cancel_source\"} 0",
                             "understudy_control_refusals_total{reason=\"invalid\"} 0",
                             "understudy_control_refusals_total{reason=\"overloaded\"} 0",
                             "understudy_control_refusals_total{reason=\"unservable\"} 0"}) {
    EXPECT_NE(text.find(series), std::string::npos) << series;
  }
}

}  // namespace
}  // namespace understudy::worker
