#include "worker/ctl/options.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::ControlOp;

const Environment kNoVariables = [](const char*) { return std::optional<std::string>(); };
constexpr const char* kHandoff = "6f0c1a9e-3b52-4d0e-9a71-0123456789ab";

std::string Refusal(ControlOp op, const CtlFlags& flags) {
  const auto plan = MakeCtlPlan(op, flags, kNoVariables);
  EXPECT_TRUE(!plan && plan.error().code == Errc::kInvalidConfig);
  return plan ? "" : plan.error().message;
}

TEST(CtlOptions, TheControlEndpointIsBesideTheOneThatIsNamed) {
  CtlFlags flags;
  EXPECT_EQ(MakeCtlPlan(ControlOp::kDrain, flags, kNoVariables)->endpoint.Dotted(),
            "dynamo.backend.control");
  flags.endpoint = "dyn://prod.decode.generate";
  EXPECT_EQ(MakeCtlPlan(ControlOp::kDrain, flags, kNoVariables)->endpoint.Dotted(),
            "prod.decode.control");
  flags.ns = "other";
  EXPECT_EQ(Refusal(ControlOp::kDrain, flags), "--endpoint and --namespace exclude each other");
}

TEST(CtlOptions, OnlyStatsAskEveryInstanceUnasked) {
  EXPECT_TRUE(MakeCtlPlan(ControlOp::kStats, {}, kNoVariables)->all);
  EXPECT_FALSE(MakeCtlPlan(ControlOp::kClearKvBlocks, {}, kNoVariables)->all);
  CtlFlags flags;
  flags.all = true;
  EXPECT_TRUE(MakeCtlPlan(ControlOp::kDrain, flags, kNoVariables)->all);
  flags.instance = "4d";
  EXPECT_EQ(Refusal(ControlOp::kDrain, flags), "--all and --instance exclude each other");
}

TEST(CtlOptions, WatchingSetsTheInterval) {
  CtlFlags flags;
  EXPECT_FALSE(MakeCtlPlan(ControlOp::kStats, flags, kNoVariables)->command.interval_ms);
  flags.watch = true;
  const auto plan = MakeCtlPlan(ControlOp::kStats, flags, kNoVariables);
  EXPECT_EQ(plan->command.interval_ms, 1000U);
  EXPECT_TRUE(plan->follows && plan->endless);
  flags.interval_ms = 9;
  EXPECT_EQ(Refusal(ControlOp::kStats, flags),
            "--interval-ms '9' is not usable (allowed: 10 to 3600000)");
}

TEST(CtlOptions, HandOffsAreNamed) {
  CtlFlags flags;
  EXPECT_EQ(Refusal(ControlOp::kCancelSource, flags), "--handoff-id is missing");
  flags.handoff_id = "nine";
  EXPECT_EQ(Refusal(ControlOp::kCancelSource, flags),
            "--handoff-id 'nine' is not usable (allowed: a UUID)");
  flags.handoff_id = kHandoff;
  EXPECT_EQ(Refusal(ControlOp::kCancelSource, flags),
            "--generation is missing (`understudy ctl handoff register` prints it)");
  flags.generation = 7;
  const auto plan = MakeCtlPlan(ControlOp::kCancelSource, flags, kNoVariables);
  EXPECT_EQ(ToText(plan->command.handoff_id), kHandoff);
  EXPECT_EQ(plan->command.generation, 7U);
}

TEST(CtlOptions, ARegistrationWithoutANameGetsAFreshOne) {
  const auto one = MakeCtlPlan(ControlOp::kRegisterHandoff, {}, kNoVariables);
  const auto two = MakeCtlPlan(ControlOp::kRegisterHandoff, {}, kNoVariables);
  EXPECT_NE(one->command.handoff_id, two->command.handoff_id);
  EXPECT_TRUE(one->endless);
}

TEST(CtlOptions, PromptsComeFromIdsOrASeed) {
  CtlFlags flags;
  flags.handoff_id = kHandoff;
  flags.generation = 1;
  EXPECT_EQ(Refusal(ControlOp::kSubmitPrefill, flags),
            "give either --token-ids or --prompt-tokens");
  flags.token_ids = "5,6";
  EXPECT_EQ(MakeCtlPlan(ControlOp::kSubmitPrefill, flags, kNoVariables)->command.token_ids,
            (std::vector<std::uint32_t>{5, 6}));
  flags.prompt_tokens = 3;
  EXPECT_EQ(Refusal(ControlOp::kSubmitPrefill, flags),
            "give either --token-ids or --prompt-tokens");
  flags.token_ids.reset();
  const auto plan = MakeCtlPlan(ControlOp::kReserveDestination, flags, kNoVariables);
  EXPECT_EQ(plan->command.token_ids.size(), 3U);
  EXPECT_EQ(plan->command.max_tokens, 1U);
  EXPECT_TRUE(plan->follows);
  flags.request_id = "";
  EXPECT_EQ(Refusal(ControlOp::kSubmitPrefill, flags),
            "--request-id '' is not usable (allowed: 1 to 256 bytes)");
}

TEST(CtlOptions, RangesAreNamed) {
  CtlFlags flags;
  flags.rank = -1;
  EXPECT_EQ(Refusal(ControlOp::kStats, flags),
            "--rank '-1' is not usable (allowed: 0 to 4294967295)");
  flags.rank.reset();
  flags.timeout_s = 0;
  EXPECT_EQ(Refusal(ControlOp::kStats, flags),
            "--timeout '0.000000' is not usable (allowed: more than 0 to 1000000 seconds)");
  flags.timeout_s = 1;
  flags.discovery_backend = "zookeeper";
  EXPECT_EQ(Refusal(ControlOp::kStats, flags),
            "--discovery-backend 'zookeeper' is not usable (allowed: etcd, file)");
}

}  // namespace
}  // namespace understudy::worker
