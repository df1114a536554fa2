// `understudy ctl` and the control endpoints of the real worker, over a real nats-server, with
// discovery in a folder and in etcd.
#include "tests/integration/discovery/etcdctl.h"
#include "tests/integration/worker/ctl_process.h"
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"

#include <csignal>

namespace understudy::worker {
namespace {

const Arguments kSmall = kFree + Arguments{"--num-gpu-blocks-override", "64", "--block-size", "4"};

class Control : public WorkerTest {
 protected:
  Ctl RunCtl(const Arguments& arguments) { return {arguments, environment}; }
  /// The only line of a command that succeeds.
  Json Ask(const Arguments& arguments) {
    Ctl ctl(arguments + Arguments{"--json"}, environment);
    EXPECT_EQ(ctl.Exit(), 0) << ctl.err();
    const auto lines = ctl.Lines();
    EXPECT_EQ(lines.size(), 1U) << ctl.out();
    return lines.empty() ? Json() : Json::parse(lines[0]);
  }
  void FillCache(const WorkerProcess& worker) {
    const auto call = Send(worker, 40, 2);
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(2), "");
  }
};

TEST_F(Control, StatsShowTheRanksOfEveryWorker) {
  const auto worker = Start(kSmall + Arguments{"--data-parallel-size", "2"});
  const auto running = Start(kCrawling);
  const auto call = Send(*running, 5, 3);
  ASSERT_TRUE(call->WaitAck());
  ASSERT_TRUE(running->WaitMetric("dynamo_engine_request", 1));
  Ctl ctl({"stats", "--json"}, environment);
  EXPECT_EQ(ctl.Exit(), 0) << ctl.err();
  ASSERT_EQ(ctl.Lines().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Json line = ctl.Line(i);
    EXPECT_EQ(line["type"], "stats");
    EXPECT_EQ(line["state"], "serving");
    const bool idle = line["instance"] == worker->Ready("instance");
    EXPECT_EQ(line["ranks"].size(), idle ? 2U : 1U);
    EXPECT_EQ(line["requests"], idle ? 0 : 1);
    if (idle) {
      EXPECT_EQ(line["ranks"][1]["blocks_total"], 64);
    }
  }
  const Json one = Ask({"stats", "--instance", worker->Ready("instance"), "--rank", "1"});
  EXPECT_EQ(one["ranks"].size(), 1U);
  EXPECT_EQ(one["ranks"][0]["rank"], 1);
}

TEST_F(Control, ClearingTellsRoutersBeforeItAnswers) {
  EventReader reader(nats().url(), ns());
  ASSERT_TRUE(reader.WaitConnected());
  const auto worker = Start(kSmall);
  FillCache(*worker);
  ASSERT_TRUE(reader.Wait([&] { return !reader.KvEvents(false).empty(); }));
  const Json before = Ask({"stats"});
  const int cached = before["ranks"][0]["blocks_cached"];
  EXPECT_GE(cached, 10);
  const Json cleared = Ask({"clear-kv-blocks", "--codec", "msgpack"});
  EXPECT_EQ(cleared["type"], "cleared");
  EXPECT_EQ(cleared["ranks"][0]["blocks_cleared"], cached);
  EXPECT_EQ(cleared["ranks"][0]["blocks_in_use"], 0);
  for (const bool in_16 : {false, true}) {
    EXPECT_TRUE(reader.Wait([&] {
      const auto events = reader.KvEvents(in_16);
      return !events.empty() && events.back().kind == transport::RouterEvent::Kind::kCleared &&
             Apply(events).empty();
    }));
  }
  EXPECT_EQ(Ask({"stats"})["ranks"][0]["blocks_cached"], 0);
  EXPECT_EQ(worker->Metric("understudy_kv_blocks_cleared_total"), cached);
  FillCache(*worker);
  EXPECT_EQ(Ask({"stats"})["ranks"][0]["blocks_cached"], cached);
}

TEST_F(Control, BlocksInUseStayOrTheClearIsRefused) {
  const auto worker = Start({"--num-gpu-blocks-override", "64", "--block-size", "4"});
  FillCache(*worker);
  auto spec = Spec(*worker, 8, kEndless);
  spec.request.token_ids = Prompt(8, 5);
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitTokens(1));
  Ctl refused({"clear-kv-blocks", "--refuse-in-use"}, environment);
  EXPECT_EQ(refused.Exit(), 1);
  EXPECT_NE(refused.out().find("rank=0 refused, because it is in use: blocks_in_use="),
            std::string::npos)
      << refused.out();
  EXPECT_GE(Ask({"stats"})["ranks"][0]["blocks_cached"], 10);
  const Json cleared = Ask({"clear-kv-blocks"});
  EXPECT_GE(cleared["ranks"][0]["blocks_cleared"], 10);
  EXPECT_GE(cleared["ranks"][0]["blocks_in_use"], 2);
  EXPECT_EQ(Ask({"stats"})["ranks"][0]["blocks_cached"], 0);
  EXPECT_TRUE(call->WaitTokens(call->tokens().size() + 2)) << "the request goes on";
}

TEST_F(Control, TheEndpointThatDynamoKnowsClearsToo) {
  const auto worker = Start(kSmall);
  FillCache(*worker);
  QueryCaller caller(nats().url());
  const auto subject = ns() + "_backend.clear_kv_blocks-" + worker->Ready("instance");
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    EXPECT_EQ(caller.Ask(subject, codec, std::string("null"))["data"],
              (Json{{"status", "success"}, {"message", "KV cache cleared"}}));
  }
  EXPECT_EQ(Ask({"stats"})["ranks"][0]["blocks_cached"], 0);
}

TEST_F(Control, ADrainedWorkerFinishesItsStreamsAndComesBackUnderItsId) {
  const auto worker = Start();
  const auto records = ServingRecords();
  ASSERT_EQ(records.size(), 1U);
  const auto call = Send(*worker, 5, 300);
  ASSERT_TRUE(call->WaitTokens(1));
  auto waiting = RunCtl({"drain", "--wait", "--json"});
  ASSERT_TRUE(waiting.WaitLines(1));
  EXPECT_EQ(waiting.Line(0)["state"], "draining");
  EXPECT_EQ(waiting.Line(0)["changed"], true);
  EXPECT_TRUE(ServingRecords().empty());
  EXPECT_EQ(worker->Get("/health").status, 503);
  EXPECT_EQ(worker->Get("/live").status, 200);
  EXPECT_EQ(worker->Metric("understudy_registered"), 0);
  EXPECT_EQ(worker->Metric("understudy_drained_workers"), 1);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(300), "");
  EXPECT_EQ(waiting.Exit(), 0) << waiting.err();
  EXPECT_EQ(waiting.Line(1)["state"], "drained");
  EXPECT_EQ(Ask({"drain"})["changed"], false);
  EXPECT_EQ(WhyNotServing(*worker), "") << "a frontend that has not noticed yet";
  const Json resumed = Ask({"resume"});
  EXPECT_EQ(resumed["state"], "serving");
  EXPECT_EQ(resumed["changed"], true);
  EXPECT_EQ(ServingRecords(), records);
  EXPECT_EQ(worker->Get("/health").status, 200);
  EXPECT_EQ(worker->Metric("understudy_registered"), 1);
  EXPECT_EQ(Ask({"resume"})["changed"], false);
}

TEST_F(Control, OneOfSeveralWorkersOfAProcessIsDrained) {
  const auto worker = Start(kFree + Arguments{"--num-workers", "3"});
  Ctl unclear({"drain"}, environment);
  EXPECT_EQ(unclear.Exit(), 2);
  for (const auto& id : worker->Instances()) {
    EXPECT_NE(unclear.err().find(id), std::string::npos) << unclear.err();
  }
  const auto id = worker->Instances().at(1);
  EXPECT_EQ(Ask({"drain", "--instance", id})["instance"], id);
  EXPECT_EQ(ServingRecords().size(), 2U);
  EXPECT_EQ(worker->Get("/health").status, 200) << "others serve";
  Ctl all({"drain", "--all", "--json"}, environment);
  EXPECT_EQ(all.Exit(), 0) << all.err();
  EXPECT_EQ(all.Lines().size(), 3U);
  EXPECT_TRUE(ServingRecords().empty());
  EXPECT_EQ(worker->Get("/health").status, 503);
  Ctl back({"resume", "--all"}, environment);
  EXPECT_EQ(back.Exit(), 0) << back.err();
  EXPECT_EQ(ServingRecords().size(), 3U);
}

TEST_F(Control, TwoControllersWatchAndOneDies) {
  const auto worker = Start(kSmall);
  auto first = RunCtl({"stats", "--watch", "--interval-ms", "10", "--json"});
  auto second = RunCtl({"stats", "--watch", "--interval-ms", "10"});
  ASSERT_TRUE(first.WaitLines(2));
  ASSERT_TRUE(second.WaitLines(2));
  EXPECT_EQ(worker->Metric("understudy_control_streams_open"), 2);
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Exit(), 128 + SIGKILL);
  EXPECT_TRUE(worker->WaitMetric("understudy_control_streams_open", 1));
  const auto seen = second.Lines().size();
  EXPECT_TRUE(second.WaitLines(seen + 2));
  second.Signal(SIGINT);
  EXPECT_EQ(second.Exit(), 0) << second.err();
  EXPECT_TRUE(worker->WaitMetric("understudy_control_streams_open", 0));
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(Control, AWatcherSeesThatTheWorkerEnds) {
  const auto worker = Start(kFree);
  auto watcher = RunCtl({"stats", "--watch", "--interval-ms", "10"});
  ASSERT_TRUE(watcher.WaitLines(1));
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_EQ(watcher.Exit(), 1);
  EXPECT_NE(watcher.err().find("the worker closed the connection"), std::string::npos)
      << watcher.err();
}

TEST_F(Control, WhileItShutsDownAWorkerIsNotResumed) {
  const auto worker = Start();
  const auto call = Send(*worker, 5, 300);
  ASSERT_TRUE(call->WaitTokens(1));
  EXPECT_EQ(Ask({"drain"})["state"], "draining");
  worker->Signal(SIGTERM);
  ASSERT_TRUE(worker->WaitErr("Received shutdown signal"));
  Ctl resume({"resume"}, environment);
  EXPECT_EQ(resume.Exit(), 1);
  EXPECT_NE(resume.err().find("the worker is shutting down"), std::string::npos) << resume.err();
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(300), "");
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(Control, WhatIsWrongIsSaidAndShowsInTheExitCode) {
  const auto worker = Start(kFree);
  Ctl rank({"stats", "--rank", "1"}, environment);
  EXPECT_EQ(rank.Exit(), 1);
  EXPECT_NE(rank.err().find("rank 1 is out of bounds for 1 ranks"), std::string::npos);
  EXPECT_TRUE(worker->WaitErr("rank 1 is out of bounds"));
  EXPECT_EQ(worker->Metric("understudy_control_refusals_total", "invalid"), 1);
  Ctl nobody({"stats", "--instance", "4d"}, environment);
  EXPECT_EQ(nobody.Exit(), 4);
  EXPECT_NE(nobody.err().find("no instance 4d of " + ns() + ".backend.control in discovery"),
            std::string::npos)
      << nobody.err();
  for (const Arguments& usage : {Arguments{"explode"},
                                 Arguments{"handoff", "explode"},
                                 Arguments{},
                                 Arguments{"drain", "--generation", "1"},
                                 Arguments{"stats", "--timeout", "0"}}) {
    EXPECT_EQ(RunCtl(usage).Exit(), 2);
  }
  auto help = RunCtl({"--help"});
  EXPECT_EQ(help.Exit(), 0);
  EXPECT_NE(help.out().find("understudy ctl handoff submit-prefill"), std::string::npos);
  auto one = RunCtl({"drain", "--help"});
  EXPECT_EQ(one.Exit(), 0);
  EXPECT_NE(one.out().find("Example: understudy ctl drain"), std::string::npos);
}

TEST_F(Control, GarbageIsRefusedInBandAndOthersAreServed) {
  const auto worker = Start(kFree);
  const std::vector<std::string> bodies = {"",
                                           "{",
                                           "null",
                                           "[]",
                                           "\xff\xfe",
                                           std::string(100, '['),
                                           R"({"version":1})",
                                           R"({"version":1,"op":"stats"}x)",
                                           R"({"version":1,"op":"drain","wait":"no"})",
                                           std::string(1000, '\x93')};
  std::vector<CallPtr> calls;
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    for (const auto& body : bodies) {
      auto spec = Spec(*worker, 1, 1, codec);
      spec.subject = ns() + "_backend.control-" + worker->Ready("instance");
      spec.body = body;
      calls.push_back(frontend().Send(spec));
    }
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(calls[i]->WaitFrame(Kind::kSentinel)) << i;
    EXPECT_EQ(calls[i]->WhyNotRefusedInBand(), "") << i;
  }
  EXPECT_EQ(worker->Metric("understudy_control_refusals_total", "invalid"), calls.size());
  EXPECT_EQ(ServingRecords().size(), 1U);
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_TRUE(worker->WaitMetric("understudy_control_streams_open", 0));
}

TEST_F(Control, ADeadWorkersRecordIsNotWaitedFor) {
  const auto worker = Start(kFree);
  worker->Signal(SIGSTOP);
  Ctl silent({"stats", "--timeout", "0.3"}, environment);
  EXPECT_EQ(silent.Exit(), 4);
  EXPECT_NE(silent.err().find("timed out: no acknowledgement"), std::string::npos) << silent.err();
  worker->Signal(SIGKILL);
  ASSERT_TRUE(worker->WaitExit());
  Ctl dead({"stats"}, environment);
  EXPECT_EQ(dead.Exit(), 1);
  EXPECT_NE(dead.err().find("nobody listens on"), std::string::npos) << dead.err();
}

TEST_F(Control, OnEtcdADrainOutlivesTheLease) {
  auto& etcd = UseEtcd("5");
  const auto worker = Start();
  const auto key = "v1/instances/" + ns() + "/backend/generate/" + worker->Ready("instance");
  const auto before = fakes::Etcdctl(etcd, "get " + key);
  ASSERT_NE(before.find(key), std::string::npos);
  const auto lease = fakes::LeaseOf(etcd, key);
  EXPECT_EQ(Ask({"drain"})["state"], "drained");
  EXPECT_EQ(fakes::Etcdctl(etcd, "get " + key).find(key), std::string::npos);
  fakes::Revoke(etcd, lease);
  ASSERT_TRUE(worker->WaitErr("lease restored"));
  EXPECT_EQ(fakes::Etcdctl(etcd, "get " + key).find(key), std::string::npos);
  EXPECT_EQ(worker->Get("/health").status, 503);
  EXPECT_EQ(worker->Metric("understudy_registered"), 0);
  EXPECT_EQ(Ask({"resume"})["state"], "serving");
  EXPECT_EQ(fakes::Etcdctl(etcd, "get " + key), before);
  EXPECT_EQ(worker->Get("/health").status, 200);
}

}  // namespace
}  // namespace understudy::worker
