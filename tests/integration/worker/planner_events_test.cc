// Loads, passes and computed prompts on the event plane, and the engine's own metrics.
// Source: events.md 5 to 7; M-019, M-020, M-038, M-050.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"

namespace understudy::worker {
namespace {

class PlannerEvents : public WorkerTest {
 protected:
  EventReader& reader() {
    if (!reader_) {
      reader_ = std::make_unique<EventReader>(nats().url(), ns());
    }
    return *reader_;
  }
  std::unique_ptr<EventReader> reader_;
};

TEST_F(PlannerEvents, EveryPassIsToldWithCountersFromOne) {
  reader();
  const auto worker = Start(kFree + Arguments{"--data-parallel-size", "2"});
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 4; ++i) {
    calls.push_back(Send(*worker, 100, 30));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
  }
  ASSERT_TRUE(worker->WaitIdle());
  const auto passes = worker->Metric("understudy_engine_passes");
  for (const bool in_16 : {false, true}) {
    const auto told = [&] {
      double count = 0;
      for (const auto& pass : reader().Passes(in_16)) {
        count += pass.prefill.count + pass.decode.count > 0 ? 1 : 0;
      }
      return count;
    };
    EXPECT_TRUE(reader().Wait([&] { return told() == passes; })) << told() << " of " << *passes;
    std::map<std::uint32_t, std::uint64_t> counters;
    std::uint64_t prompt_tokens = 0;
    for (const auto& pass : reader().Passes(in_16)) {
      EXPECT_EQ(pass.counter_id, ++counters[pass.dp_rank]);
      EXPECT_EQ(pass.worker_id,
                std::to_string(std::stoull(worker->Instances().at(0), nullptr, 16)));
      prompt_tokens += pass.prefill_tokens;
    }
    EXPECT_EQ(counters.size(), 2U);
    EXPECT_GE(prompt_tokens, 200U);
  }
}

TEST_F(PlannerEvents, AnIdleRankIsToldOnceASecond) {
  reader();
  const auto worker = Start(kFree);
  ASSERT_TRUE(reader().Wait([&] { return reader().Passes(false).size() >= 2; }));
  const auto messages = reader().Of("forward-pass-metrics", false);
  const auto pass = reader().Passes(false)[1];
  EXPECT_EQ(pass.counter_id, 2U);
  EXPECT_EQ(pass.wall_time_s, 0.0);
  EXPECT_EQ(pass.prefill.count + pass.decode.count + pass.queued_prefill.count, 0U);
  EXPECT_GE(messages[1].envelope.published_at_ms - messages[0].envelope.published_at_ms, 990U);
}

TEST_F(PlannerEvents, PassesAreNotToldWhenNotWanted) {
  reader();
  const auto worker = Start(kFree + Arguments{"--no-forward-pass-metrics"});
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_TRUE(Records("event_channels").size() == 5U) << "two of events, two of loads, sequences";
  EXPECT_TRUE(reader().Passes(false).empty());
}

TEST_F(PlannerEvents, EachPromptIsToldOnceWhenItIsComputed) {
  reader();
  const auto worker = Start(kFree);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 6; ++i) {
    calls.push_back(Send(*worker, 50, 20));
  }
  std::set<std::string> ids;
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    ids.insert(call->id());
  }
  ASSERT_TRUE(reader().Wait([&] { return reader().Sequences().size() >= ids.size(); }));
  const auto id = std::stoull(worker->Instances().at(0), nullptr, 16);
  for (const auto& event : reader().Sequences()) {
    EXPECT_EQ(event.kind, "MarkPrefillCompleted");
    EXPECT_EQ(event.worker_id, id);
    EXPECT_EQ(event.router_id, id);
    EXPECT_EQ(ids.erase(event.request_id), 1U) << event.request_id;
  }
  EXPECT_TRUE(ids.empty());
}

TEST_F(PlannerEvents, LoadsGoToBothReleases) {
  reader();
  const auto worker = Start(kFree);
  EXPECT_EQ(WhyNotServing(*worker), "");
  for (const bool in_16 : {false, true}) {
    ASSERT_TRUE(reader().Wait([&] {
      const auto messages = reader().Of("kv_metrics", in_16);
      if (messages.empty()) {
        return false;
      }
      const auto load = transport::DecodeActiveLoad(messages.back().envelope.payload);
      return load && load->kv_used_blocks == 0U;
    }));
  }
  EXPECT_EQ(reader().Of("kv_metrics", false)[0].subject, "namespace." + ns() + ".kv_metrics");
}

TEST_F(PlannerEvents, TheEnginesOwnMetricsAppearWithTheFirstRequest) {
  const auto worker = Start(kFree);
  EXPECT_EQ(worker->Metric("vllm:num_requests_running"), std::nullopt);
  EXPECT_EQ(WhyNotServing(*worker), "");
  const auto label = R"(engine="0",model_name="dynamo")";
  EXPECT_EQ(worker->Metric("vllm:num_requests_running", label), 0);
  EXPECT_EQ(worker->Metric("vllm:time_to_first_token_seconds_count", label), 1);
  EXPECT_EQ(worker->Metric("vllm:e2e_request_latency_seconds_count", label), 1);
  EXPECT_EQ(worker->Metric("vllm:inter_token_latency_seconds_count", label), 2);
  EXPECT_EQ(worker->Metric("vllm:num_preemptions_total", label), 0);
}

}  // namespace
}  // namespace understudy::worker
