// What a worker tells about itself: load messages, metrics, state dump, health, $SRV.
// Source: events.md 5, wire.md 4.1, 8, 9; M-038 to M-042.
#include "tests/integration/worker/worker_test.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::json;

class Observe : public WorkerTest {
 protected:
  json Ask(const std::string& subject) {
    return json::parse(frontend().Ask(subject).value_or(""), nullptr, false);
  }
  /// Those of `generate` in an answer to INFO or STATS.
  static json Serving(const json& answer) {
    json found = json::array();
    for (const auto& endpoint : answer["endpoints"]) {
      if (endpoint["subject"].get<std::string>().find(".generate-") != std::string::npos) {
        found.push_back(endpoint);
      }
    }
    return found;
  }
};

TEST_F(Observe, LoadIsToldPerRankOnChangeAndIsZeroInTheEnd) {
  frontend().WatchLoad(ns());
  const auto worker = Start(Arguments{"--data-parallel-size", "2", "--block-size", "16"});
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 8; ++i) {
    auto spec = Spec(*worker, 0, 40);
    spec.request.token_ids = Prompt(60, i);
    calls.push_back(frontend().Send(spec));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(40), "");
  }
  ASSERT_TRUE(worker->WaitIdle());
  const auto last_is_zero = [](const auto& loads, std::uint32_t rank) {
    const auto last = std::find_if(
        loads.rbegin(), loads.rend(), [&](const auto& load) { return load.dp_rank == rank; });
    return last != loads.rend() && last->kv_used_blocks == 0U;
  };
  EXPECT_TRUE(frontend().WaitLoads(
      [&](const auto& loads) { return last_is_zero(loads, 0) && last_is_zero(loads, 1); }));
  const auto id = std::stoull(worker->Instances().at(0), nullptr, 16);
  std::map<std::uint32_t, std::uint64_t> last;
  std::map<std::uint32_t, std::uint64_t> most;
  for (const auto& load : frontend().loads()) {
    EXPECT_EQ(load.worker_id, id);
    EXPECT_FALSE(load.active_decode_blocks || load.active_prefill_tokens);
    ASSERT_TRUE(load.kv_used_blocks && load.dp_rank < 2);
    EXPECT_TRUE(!last.contains(load.dp_rank) || last[load.dp_rank] != *load.kv_used_blocks)
        << "an equal value is not repeated";
    last[load.dp_rank] = *load.kv_used_blocks;
    most[load.dp_rank] = std::max(most[load.dp_rank], *load.kv_used_blocks);
  }
  // Four requests of 60 + 40 tokens a rank, 7 blocks of 16 each.
  EXPECT_GE(most[0], 16U);
  EXPECT_LE(most[0], 28U);
  EXPECT_GE(most[1], 16U);
  EXPECT_LE(most[1], 28U);
}

TEST_F(Observe, U43FreeRunningLoadMessagesAreFewAndEndAtZero) {
  frontend().WatchLoad(ns());
  const auto worker = Start(kFree + Arguments{"--block-size", "4"});
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 16; ++i) {
    calls.push_back(Send(*worker, 20, 2000));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
  }
  EXPECT_TRUE(frontend().WaitLoads(
      [](const auto& loads) { return !loads.empty() && loads.back().kv_used_blocks == 0U; }));
  EXPECT_LT(frontend().loads().size(), 8000U) << "never one per token: 32,000 were sent";
}

TEST_F(Observe, TheStateDumpIsJsonAndListsTheRunningStream) {
  const auto worker = Start(Arguments{"--data-parallel-size", "2"});
  auto spec = Spec(*worker, 30, kEndless);
  spec.request.dp_rank = 1;
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitTokens(2));
  const auto dump = json::parse(worker->DumpState(), nullptr, false);
  ASSERT_TRUE(dump.is_object()) << worker->err();
  EXPECT_EQ(dump["endpoint"], ns() + ".backend.generate");
  EXPECT_EQ(dump["instances"], json(worker->Instances()));
  EXPECT_EQ(dump["registered"], true);
  EXPECT_EQ(dump["nats_connected"], true);
  ASSERT_EQ(dump["streams"].size(), 1U);
  const auto& stream = dump["streams"][0];
  EXPECT_EQ(stream["request_id"], call->id());
  EXPECT_EQ(stream["dp_rank"], 1);
  EXPECT_EQ(stream["prompt_tokens"], 30);
  EXPECT_GE(stream["tokens_sent"], 2);
  EXPECT_EQ(stream["output_tokens_max"], kEndless);
  EXPECT_TRUE(dump["engine"].is_object());
  EXPECT_EQ(dump["engine"]["ranks_total"], 2);
}

TEST_F(Observe, StateDumpsUnderLoadDoNotDisturbStreams) {
  const auto worker = Start(kFree);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 32; ++i) {
    calls.push_back(Send(*worker, 20, 1000));
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(json::parse(worker->DumpState(), nullptr, false).is_object());
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(1000), "");
  }
}

TEST_F(Observe, HealthNamesTheEndpointAndLiveIsTheSameBody) {
  const auto worker = Start(kFree);
  ASSERT_TRUE(Eventually([&] { return worker->Get("/health").status == 200; }));
  for (const auto* path : {"/health", "/live"}) {
    const auto body = json::parse(worker->Get(path).body, nullptr, false);
    EXPECT_EQ(body["status"], "ready");
    EXPECT_EQ(body["endpoints"]["generate"], "ready");
    EXPECT_TRUE(body["uptime"]["secs"].is_number_integer());
    EXPECT_TRUE(body["uptime"]["nanos"].is_number_integer());
  }
  EXPECT_EQ(worker->Get("/metadata").status, 404);
  EXPECT_EQ(worker->Get("/engine/x").status, 404);
  EXPECT_EQ(worker->Get("/nothing").status, 404);
}

TEST_F(Observe, MetricsCountRequestsBytesAndTokens) {
  const auto worker = Start(kFree);
  std::size_t sent = 0;
  auto spec = Spec(*worker, 100, 7);
  spec.reframe = [&sent](std::string payload) {
    sent = payload.size();
    return payload;
  };
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitClosed());
  const auto label = "worker_id=\"" + worker->Instances().at(0) + "\"";
  EXPECT_EQ(worker->Metric("dynamo_component_requests_total", label), 1);
  EXPECT_EQ(worker->Metric("dynamo_component_request_bytes_total", label),
            static_cast<double>(sent));
  EXPECT_GT(worker->Metric("dynamo_component_response_bytes_total", label), 7 * 20);
  EXPECT_EQ(worker->Metric("understudy_tokens_sent_total", label), 7);
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total", label), 0);
  EXPECT_EQ(worker->Metric("dynamo_component_errors_total"), std::nullopt)
      << "series of errors appear on first use";
  EXPECT_GT(worker->Metric("dynamo_component_uptime_seconds", label), 0);
  EXPECT_EQ(worker->Metric("understudy_engine_blocks_total", label), 16384);
}

TEST_F(Observe, ServiceQuestionsAreAnsweredWithCorrectCounts) {
  const auto worker = Start(kFree);
  const auto service = ns() + "_backend";
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(WhyNotServing(*worker), "");
  }
  auto bad = Spec(*worker, 1, 0);
  ASSERT_TRUE(frontend().Send(bad)->WaitClosed());
  const auto ping = Ask("$SRV.PING." + service);
  EXPECT_EQ(ping["type"], "io.nats.micro.v1.ping_response");
  EXPECT_EQ(ping["name"], service);
  EXPECT_EQ(ping["version"], "1.3.0+post1");
  const auto id = ping["id"].get<std::string>();
  EXPECT_EQ(id.size(), 22U);
  EXPECT_EQ(Ask("$SRV.PING." + service + "." + id)["id"], id);
  const auto info = Ask("$SRV.INFO." + service);
  EXPECT_EQ(info["type"], "io.nats.micro.v1.info_response");
  EXPECT_EQ(info["description"], "Dynamo component backend in namespace " + ns());
  ASSERT_EQ(info["endpoints"].size(), 5U)
      << "and where each release asks for KV events, control and clear_kv_blocks";
  const auto serving = Serving(info);
  ASSERT_EQ(serving.size(), 1U);
  EXPECT_EQ(serving[0]["subject"], worker->SubjectIn(ns()));
  EXPECT_EQ(serving[0]["queue_group"], "q");
  const auto stats = Ask("$SRV.STATS." + service + "." + id);
  EXPECT_EQ(stats["type"], "io.nats.micro.v1.stats_response");
  const auto counts = Serving(stats);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0]["num_requests"], 4);
  EXPECT_EQ(counts[0]["num_errors"], 1);
  EXPECT_GT(counts[0]["processing_time"], 0);
}

TEST_F(Observe, WorkersOfOneProcessShareTheRequestsTheyAreSent) {
  const auto worker = Start(kFree + Arguments{"--num-workers", "2"});
  EXPECT_EQ(ServingRecords().size(), 2U);
  const auto endpoints = Serving(Ask("$SRV.INFO." + ns() + "_backend"));
  ASSERT_EQ(endpoints.size(), 2U);
  for (const auto& endpoint : endpoints) {
    auto spec = Spec(*worker, 5, 5);
    spec.subject = endpoint["subject"].get<std::string>();
    const auto call = frontend().Send(spec);
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(5), "");
  }
  for (const auto& id : worker->Instances()) {
    EXPECT_EQ(worker->Metric("dynamo_component_requests_total", id), 1) << "none is idle";
  }
}

TEST_F(Observe, TwoWorkersOfAProcessMayHoldTheSameRequestId) {
  const auto worker = Start(Arguments{"--num-workers", "2"});
  const auto endpoints = Serving(Ask("$SRV.INFO." + ns() + "_backend"));
  ASSERT_EQ(endpoints.size(), 2U);
  std::vector<CallPtr> calls;
  for (const auto& endpoint : endpoints) {
    auto spec = Spec(*worker, 5, 40);
    spec.id = "the-same";
    spec.subject = endpoint["subject"].get<std::string>();
    calls.push_back(frontend().Send(spec));
    ASSERT_TRUE(calls.back()->WaitTokens(1)) << calls.back()->error();
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(40), "");
  }
}

}  // namespace
}  // namespace understudy::worker
