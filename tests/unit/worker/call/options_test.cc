#include "worker/call/options.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

Environment Variables(std::map<std::string, std::string> values = {}) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

CallFlags Request() {
  CallFlags flags;
  flags.discovery_backend = "file";
  flags.token_ids = "1,2,3";
  return flags;
}

TEST(CallOptions, DefaultToTheNamespaceOfTheEnvironment) {
  const auto plan = MakeCallPlan(
      Request(), Variables({{"DYN_NAMESPACE", "prod"}, {"DYN_NAMESPACE_WORKER_SUFFIX", "b"}}));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->endpoint.Dotted(), "prod-b.backend.generate");
  EXPECT_EQ(plan->token_ids, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(plan->requests, 1U);
  EXPECT_FALSE(plan->instance);
  EXPECT_FALSE(plan->codec);
}

TEST(CallOptions, TakeAnEndpointOrANamespace) {
  auto flags = Request();
  flags.endpoint = "dyn://a.b.c";
  EXPECT_EQ(MakeCallPlan(flags, Variables())->endpoint.Dotted(), "a.b.c");
  flags.endpoint.reset();
  flags.ns = "other";
  EXPECT_EQ(MakeCallPlan(flags, Variables())->endpoint.Dotted(), "other.backend.generate");
}

TEST(CallOptions, ReadInstanceIdsAsListShowsThem) {
  auto flags = Request();
  for (const auto* text : {"3ee9a22ae28407fb", "0x3ee9a22ae28407fb", "3EE9A22AE28407FB"}) {
    flags.instance = text;
    EXPECT_EQ(MakeCallPlan(flags, Variables())->instance, 0x3ee9a22ae28407fbULL) << text;
  }
}

TEST(CallOptions, WatchSecondsMeansWatch) {
  CallFlags flags;
  flags.discovery_backend = "etcd";
  flags.watch_seconds = 1.5;
  const auto plan = MakeCallPlan(flags, Variables());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->watch);
  EXPECT_EQ(plan->watch_for, std::chrono::milliseconds(1500));
  EXPECT_EQ(plan->requests, 0U);
}

struct Bad {
  const char* option;  ///< what the text must name
  const char* value;   ///< and which value it must show
  void (*change)(CallFlags&);
};
class BadOption : public ::testing::TestWithParam<Bad> {};

TEST_P(BadOption, IsRefusedWithOptionAndValue) {
  auto flags = Request();
  GetParam().change(flags);
  const auto plan = MakeCallPlan(flags, Variables());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Errc::kInvalidConfig);
  EXPECT_NE(plan.error().message.find(GetParam().option), std::string::npos)
      << plan.error().message;
  EXPECT_NE(plan.error().message.find(GetParam().value), std::string::npos) << plan.error().message;
}
INSTANTIATE_TEST_SUITE_P(
    Options,
    BadOption,
    ::testing::Values(
        Bad{"--discovery-backend", "'mem'", [](CallFlags& f) { f.discovery_backend = "mem"; }},
        Bad{"--endpoint", "a.b", [](CallFlags& f) { f.endpoint = "a.b"; }},
        Bad{"--namespace", "UPPER", [](CallFlags& f) { f.ns = "UPPER"; }},
        Bad{"--endpoint", "--namespace", [](CallFlags& f) { f.endpoint = "a.b.c", f.ns = "a"; }},
        Bad{"--instance", "'zz'", [](CallFlags& f) { f.instance = "zz"; }},
        Bad{"--instance", "''", [](CallFlags& f) { f.instance = ""; }},
        Bad{"--instance",
            "'11112222333344445'",
            [](CallFlags& f) { f.instance = "11112222333344445"; }},
        Bad{"--token-ids", "'1,,2'", [](CallFlags& f) { f.token_ids = "1,,2"; }},
        Bad{"--token-ids", "''", [](CallFlags& f) { f.token_ids = ""; }},
        Bad{"--token-ids", "'1,'", [](CallFlags& f) { f.token_ids = "1,"; }},
        Bad{"--token-ids", "'-1'", [](CallFlags& f) { f.token_ids = "-1"; }},
        Bad{"--token-ids", "'4294967296'", [](CallFlags& f) { f.token_ids = "4294967296"; }},
        Bad{"--token-ids", "--prompt-tokens", [](CallFlags& f) { f.prompt_tokens = 5; }},
        Bad{"--prompt-tokens",
            "'0'",
            [](CallFlags& f) { f.token_ids.reset(), f.prompt_tokens = 0; }},
        Bad{"--max-tokens", "'-1'", [](CallFlags& f) { f.max_tokens = -1; }},
        Bad{"--dp-rank", "'-2'", [](CallFlags& f) { f.dp_rank = -2; }},
        Bad{"--count", "'0'", [](CallFlags& f) { f.count = 0; }},
        Bad{"--concurrency", "'5000'", [](CallFlags& f) { f.concurrency = 5000; }},
        Bad{"--timeout", "'0", [](CallFlags& f) { f.timeout_s = 0; }},
        Bad{"--timeout", "'nan", [](CallFlags& f) { f.timeout_s = std::stod("nan"); }},
        Bad{"--watch-seconds", "'-1", [](CallFlags& f) { f.watch_seconds = -1; }},
        Bad{"--cancel-after", "'-1'", [](CallFlags& f) { f.cancel_after = -1; }},
        Bad{"--list", "--token-ids", [](CallFlags& f) { f.list = true; }},
        Bad{"--token-ids", "--watch", [](CallFlags& f) { f.token_ids.reset(); }}));

TEST(CallPrompt, IsTheGivenTokensForEveryRequest) {
  CallPlan plan;
  plan.token_ids = {5, 6};
  EXPECT_EQ(PromptOf(plan, 0), plan.token_ids);
  EXPECT_EQ(PromptOf(plan, 9), plan.token_ids);
}

TEST(CallPrompt, SyntheticOnesDependOnSeedAndIndexOnly) {
  CallPlan plan;
  plan.prompt_tokens = 64;
  plan.seed = 7;
  const auto first = PromptOf(plan, 0);
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(PromptOf(plan, 0), first);
  EXPECT_NE(PromptOf(plan, 1), first);
  plan.seed = 8;
  EXPECT_NE(PromptOf(plan, 0), first);
}

}  // namespace
}  // namespace understudy::worker
