#include "worker/replay/options.h"

#include "worker/cli/replay_command.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

ReplayFlags Trace() {
  ReplayFlags flags;
  flags.trace = "t.jsonl";
  return flags;
}

/// Of release 1.3, which wants to be told nothing of arrivals.
ReplayFlags Synthetic() {
  ReplayFlags flags;
  flags.dynamo_release = "1.3";
  flags.synthetic = true;
  flags.request_count = 100;
  flags.input_tokens = 512;
  flags.output_tokens = 64;
  return flags;
}

std::string Refusal(const ReplayFlags& flags) {
  const auto plan = MakeReplayPlan(flags);
  return plan ? "accepted" : plan.error().message;
}

ReplayFlags Parsed(const std::vector<std::string>& arguments) {
  ReplayFlags flags;
  ReplayEngineFlags engine;
  FlagSet set("understudy replay", "");
  AddReplayFlags(set, flags, engine);
  EXPECT_TRUE(set.Parse(arguments).proceed);
  return flags;
}

TEST(ReplayOptions, HaveTheNamesOfTheReferenceAndOurs) {
  const auto reference = Parsed({"t.jsonl", "--report-json", "a", "--report-jsonl", "b"});
  const auto ours = Parsed({"t.jsonl", "--report", "a", "--requests", "b"});
  for (const auto& flags : {reference, ours}) {
    EXPECT_EQ(flags.trace, "t.jsonl");
    EXPECT_EQ(flags.report, "a");
    EXPECT_EQ(flags.requests, "b");
  }
  EXPECT_EQ(Parsed({"t.jsonl", "--router-mode", "round-robin"}).router_mode, "round-robin");
}

TEST(ReplayOptions, OfATraceHaveTheDefaultsOfTheReference) {
  const auto plan = MakeReplayPlan(Trace());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->trace, "t.jsonl");
  EXPECT_EQ(plan->trace_block_size, 512U);
  EXPECT_FALSE(plan->disaggregated);
  EXPECT_EQ(plan->options.num_workers, 1U);
  EXPECT_EQ(plan->options.router_mode, mocker::ReplayRouterMode::kRoundRobin);
  EXPECT_EQ(plan->options.arrival_speedup_ratio, 1.0);
  EXPECT_EQ(plan->options.seed, 42U);
  EXPECT_FALSE(plan->options.sla.is_set());
  EXPECT_FALSE(plan->options.max_sim_time_ms);
  EXPECT_FALSE(plan->options.replay_concurrency);
}

TEST(ReplayOptions, OfASyntheticLoadNeedItsThreeNumbers) {
  const auto plan = MakeReplayPlan(Synthetic());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->trace);
  EXPECT_EQ(plan->synthetic.request_count, 100U);
  EXPECT_EQ(plan->synthetic.arrival_interval_ms, 1.0);
  auto flags = Synthetic();
  flags.synthetic = false;  // the numbers say so as well
  EXPECT_EQ(Refusal(flags), "accepted");
  flags.output_tokens.reset();
  EXPECT_EQ(Refusal(flags),
            "a synthetic load needs --request-count, --input-tokens and --output-tokens; not "
            "given: --output-tokens");
}

TEST(ReplayOptions, TakeARateInsteadOfAnInterval) {
  auto flags = Synthetic();
  flags.request_rate = 50.0;
  flags.arrival_process = "poisson";
  const auto plan = MakeReplayPlan(flags);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->synthetic.arrival_interval_ms, 20.0);
  EXPECT_TRUE(plan->synthetic.poisson_arrivals);
  flags.arrival_interval_ms = 1.0;
  EXPECT_EQ(Refusal(flags), "give either --arrival-interval-ms or --request-rate, not both");
}

// engine-1.6.md 9: the texts and defaults of 1.6.1.
TEST(ReplayOptions, Of16TakeOneKindOfArrivals) {
  auto flags = Synthetic();
  flags.dynamo_release = "1.6";
  const std::string refusal =
      "synthetic replay requires exactly one of replay_concurrency, request_rate, or "
      "arrival_interval_ms (--replay-concurrency, --request-rate, --arrival-interval-ms)";
  EXPECT_EQ(Refusal(flags), refusal);
  flags.request_rate = 50.0;
  auto plan = MakeReplayPlan(flags);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->synthetic.poisson_arrivals);
  EXPECT_FALSE(plan->synthetic.names_sessions);
  flags.arrival_process = "constant";
  flags.num_prefix_groups = 2;
  plan = MakeReplayPlan(flags);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->synthetic.poisson_arrivals);
  EXPECT_TRUE(plan->synthetic.names_sessions);
  flags.replay_concurrency = 4;
  EXPECT_EQ(Refusal(flags), refusal);
}

TEST(ReplayOptions, TakeEitherATraceOrASyntheticLoad) {
  EXPECT_EQ(Refusal({}),
            "nothing to replay: give a trace file, or --request-count, --input-tokens and "
            "--output-tokens for a synthetic load");
  auto flags = Trace();
  flags.num_prefix_groups = 3;
  EXPECT_EQ(Refusal(flags),
            "give either a trace or a synthetic load, got the trace 't.jsonl' and "
            "--num-prefix-groups");
  flags = Synthetic();
  flags.trace_block_size = 64;
  EXPECT_EQ(Refusal(flags), "--trace-block-size is about a trace, and the load is synthetic");
}

TEST(ReplayOptions, AreDisaggregatedWhenAPoolIsNamed) {
  auto flags = Trace();
  flags.num_prefill_workers = 2;
  const auto plan = MakeReplayPlan(flags);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->disaggregated);
  EXPECT_EQ(plan->options.num_prefill_workers, 2U);
  EXPECT_EQ(plan->options.num_decode_workers, 1U);
  flags.num_workers = 4;
  EXPECT_EQ(Refusal(flags),
            "--num-workers is for workers that prefill and decode; a disaggregated run has "
            "--num-prefill-workers and --num-decode-workers");
}

TEST(ReplayOptions, TakeTheArgumentsOfBothPoolsOrOfNone) {
  auto flags = Trace();
  flags.prefill_engine_args = "{}";
  EXPECT_EQ(Refusal(flags),
            "--prefill-engine-args and --decode-engine-args must be provided together");
  flags.decode_engine_args = "{}";
  EXPECT_TRUE(MakeReplayPlan(flags)->disaggregated);
}

TEST(ReplayOptions, TakeBothSpellingsOfARouterMode) {
  for (const auto* mode : {"kv", "kv_router"}) {
    auto flags = Trace();
    flags.router_mode = mode;
    flags.router_config = R"({"router_temperature": 0.5})";
    const auto plan = MakeReplayPlan(flags);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->options.router_mode, mocker::ReplayRouterMode::kKv);
    EXPECT_EQ(plan->options.router.router_temperature, 0.5);
  }
  auto flags = Trace();
  flags.router_config = "{}";
  EXPECT_EQ(Refusal(flags),
            "--router-config is for --router-mode kv_router, got --router-mode round_robin");
}

TEST(ReplayOptions, TakeTheTimeLimitInEitherUnit) {
  auto flags = Trace();
  flags.max_sim_time_seconds = 1.5;
  EXPECT_EQ(MakeReplayPlan(flags)->options.max_sim_time_ms, 1500.0);
  flags.max_sim_time_ms = 3.0;
  EXPECT_EQ(Refusal(flags), "give either --max-sim-time-ms or --max-sim-time-seconds, not both");
}

TEST(ReplayOptions, RefuseNumbersOutOfRangeByName) {
  auto flags = Trace();
  flags.num_workers = 0;
  EXPECT_EQ(Refusal(flags), "--num-workers '0' is not usable (allowed: 1 to 65536)");
  flags = Trace();
  flags.replay_concurrency = -1;
  EXPECT_EQ(Refusal(flags), "--replay-concurrency '-1' is not usable (allowed: 1 to 16777216)");
  flags = Trace();
  flags.arrival_speedup_ratio = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Refusal(flags),
            "--arrival-speedup-ratio 'nan' is not usable (allowed: more than 0 to 1,000,000,000)");
  flags = Trace();
  flags.sla_itl_ms = -2.5;
  EXPECT_EQ(Refusal(flags),
            "--sla-itl-ms '-2.5' is not usable (allowed: more than 0 to 1,000,000,000,000)");
  flags = Synthetic();
  flags.shared_prefix_ratio = 1.5;
  EXPECT_EQ(Refusal(flags), "--shared-prefix-ratio '1.5' is not usable (allowed: 0 to 1)");
  flags = Synthetic();
  flags.input_tokens = 1LL << 40;
  EXPECT_EQ(Refusal(flags),
            "--input-tokens '1099511627776' is not usable (allowed: 1 to 16777216)");
}

TEST(ReplayOptions, RefuseWhatIsNotBuilt) {
  auto flags = Trace();
  flags.trace_format = "dynamo";
  EXPECT_EQ(Refusal(flags),
            "--trace-format 'dynamo' is not usable (allowed: mooncake; other formats are not "
            "supported)");
  flags = Trace();
  flags.replay_mode = "online";
  EXPECT_EQ(Refusal(flags).rfind("--replay-mode 'online' is not usable (allowed: offline", 0), 0U);
}

TEST(ReplayOptions, KeepReportsInFilesOfTheirOwn) {
  auto flags = Trace();
  flags.report = "out";
  flags.html = "out";
  EXPECT_EQ(Refusal(flags), "--report and --html are both 'out': each needs a file of its own");
  flags.html = "";
  EXPECT_EQ(Refusal(flags), "--html is empty (allowed: a path, or - for standard output)");
}

}  // namespace
}  // namespace understudy::worker
