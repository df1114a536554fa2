#include "worker/replay/describe.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::map<std::string, std::string> RowsOf(const ReplayRunInfo& info) {
  return {info.configuration.begin(), info.configuration.end()};
}

ReplayPlan TracePlan() {
  ReplayPlan plan;
  plan.trace = "data/t.jsonl";
  plan.options.engine = mocker::MockerOptions{};
  return plan;
}

TEST(DescribeReplay, SaysWhatWasReplayedAndOnWhat) {
  auto plan = TracePlan();
  plan.options.num_workers = 8;
  plan.options.router_mode = mocker::ReplayRouterMode::kKv;
  plan.options.arrival_speedup_ratio = 1.5;
  plan.options.sla.e2e_ms = 500.0;
  const auto info = DescribeReplay(plan, {"data/t.jsonl"});
  EXPECT_EQ(info.title, "Offline replay of t.jsonl");
  auto rows = RowsOf(info);
  EXPECT_EQ(rows["trace"], "data/t.jsonl");
  EXPECT_EQ(rows["arrivals"], "as the trace says, 1.5 x as fast");
  EXPECT_EQ(rows["workers"], "8 of 1 GPU");
  EXPECT_EQ(rows["router"], "KV aware, overlap credit 1, temperature 0, queue threshold 16");
  EXPECT_EQ(rows["KV cache"], "16,384 blocks of 64 tokens, prefix caching on");
  EXPECT_EQ(rows["service level"], "e2e <= 500 ms");
}

TEST(DescribeReplay, SaysHowASyntheticLoadArrives) {
  ReplayPlan plan;
  plan.options.engine = mocker::MockerOptions{};
  plan.synthetic.request_count = 1000;
  plan.synthetic.arrival_interval_ms = 20.0;
  plan.synthetic.poisson_arrivals = true;
  auto rows = RowsOf(DescribeReplay(plan, {}));
  EXPECT_EQ(rows["load"], "1,000 requests, 512 input and 64 output tokens");
  EXPECT_EQ(rows["arrivals"], "every 20.00 ms on average, Poisson");
  plan.options.replay_concurrency = 16;
  EXPECT_EQ(RowsOf(DescribeReplay(plan, {}))["arrivals"], "closed loop, 16 at a time");
}

TEST(DescribeReplay, NamesBothPools) {
  auto plan = TracePlan();
  plan.options.prefill_engine = plan.options.engine;
  plan.options.decode_engine = plan.options.engine;
  plan.options.engine.reset();
  plan.options.num_prefill_workers = 2;
  plan.options.prefill_engine->kv_bytes_per_token = 1000;
  plan.options.prefill_engine->kv_transfer_bandwidth = 64.0;
  auto rows = RowsOf(DescribeReplay(plan, {}));
  EXPECT_EQ(rows["prefill workers"], "2 of 1 GPU");
  EXPECT_EQ(rows["decode workers"], "1 of 1 GPU");
  EXPECT_EQ(rows["prefill KV transfer"], "1,000 bytes a token at 64 GB/s");
  EXPECT_EQ(rows["decode engine"], "vllm");
}

TEST(DescribeReplay, GivesACommandThatAShellTakesBack) {
  EXPECT_EQ(
      DescribeReplay(TracePlan(), {"a b.jsonl", "--num-workers", "2", "{\"a\": 1}"}).command_line,
      "understudy replay 'a b.jsonl' --num-workers 2 '{\"a\": 1}'");
  EXPECT_EQ(ShellWords({"it's", "", "$HOME", "plain-1.0/x=y"}),
            "'it'\\''s' '' '$HOME' plain-1.0/x=y");
}

}  // namespace
}  // namespace understudy::worker
