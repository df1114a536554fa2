#include "worker/replay/options.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::string Refusal(const std::string& json) {
  const auto router = ParseRouterConfig(json);
  return router ? "accepted" : router.error().message;
}

TEST(RouterConfig, HasTheDefaultsOfTheReference) {
  const auto router = ParseRouterConfig("{}");
  ASSERT_TRUE(router) << router.error().message;
  EXPECT_EQ(router->overlap_score_credit, 1.0);
  EXPECT_EQ(router->router_queue_threshold, 16.0);
}

TEST(RouterConfig, TakesEveryMember) {
  const auto router = ParseRouterConfig(R"({
    "overlap_score_credit": 0.5, "overlap_score_credit_decay": 2, "prefill_load_scale": 3.5,
    "router_temperature": 0.25, "router_track_active_blocks": false,
    "router_assume_kv_reuse": false, "router_track_prefill_tokens": false,
    "router_queue_threshold": null, "router_queue_policy": "wspt", "router_event_threads": 8})");
  ASSERT_TRUE(router) << router.error().message;
  EXPECT_EQ(router->overlap_score_credit, 0.5);
  EXPECT_EQ(router->overlap_score_credit_decay, 2.0);
  EXPECT_EQ(router->prefill_load_scale, 3.5);
  EXPECT_EQ(router->router_temperature, 0.25);
  EXPECT_FALSE(router->router_track_active_blocks);
  EXPECT_FALSE(router->router_assume_kv_reuse);
  EXPECT_FALSE(router->router_track_prefill_tokens);
  EXPECT_FALSE(router->router_queue_threshold);
  EXPECT_EQ(router->router_queue_policy, mocker::RouterQueuePolicy::kWspt);
}

TEST(RouterConfig, NamesTheMemberTheValueAndWhatIsAllowed) {
  EXPECT_EQ(Refusal(R"({"overlap_score_credit": 1.5})"),
            "--router-config overlap_score_credit '1.5' is not usable (allowed: a number from 0 to "
            "1.0)");
  EXPECT_EQ(Refusal(R"({"router_temperature": "hot"})"),
            "--router-config router_temperature '\"hot\"' is not usable (allowed: a number from 0 "
            "on)");
  EXPECT_EQ(Refusal(R"({"router_queue_threshold": -1})"),
            "--router-config router_queue_threshold '-1' is not usable (allowed: a number from 0 "
            "on)");
  EXPECT_EQ(Refusal(R"({"router_queue_policy": "random"})"),
            "--router-config router_queue_policy '\"random\"' is not usable (allowed: fcfs, lcfs, "
            "wspt)");
  EXPECT_EQ(Refusal(R"({"router_assume_kv_reuse": 1})"),
            "--router-config router_assume_kv_reuse '1' is not usable (allowed: true or false)");
}

TEST(RouterConfig, RefusesWhatIsNoObjectOrUnknown) {
  EXPECT_EQ(
      Refusal("kv").rfind("--router-config 'kv' is not usable (allowed: a JSON object with ", 0),
      0U);
  EXPECT_EQ(Refusal("[1]").rfind("--router-config '[1]' is not usable", 0), 0U);
  const auto unknown = Refusal(R"({"temperature": 1})");
  EXPECT_EQ(unknown.rfind("--router-config has no member 'temperature' (allowed: ", 0), 0U);
  EXPECT_NE(unknown.find("router_temperature"), std::string::npos);
}

}  // namespace
}  // namespace understudy::worker
