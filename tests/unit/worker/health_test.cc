#include "worker/lifecycle/health.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

constexpr Nanoseconds kUptime = std::chrono::milliseconds(2500);

int Health(HealthState state, bool starting_ready = false) {
  return HealthReply(state, "generate", starting_ready, kUptime, false).status;
}

TEST(Health, IsReadyWhenRegisteredAndStarted) {
  EXPECT_EQ(Health({true, true, false}), 200);
  EXPECT_EQ(Health({false, true, false}), 503);             // lease lost, or not there yet
  EXPECT_EQ(Health({true, false, false}), 503);             // startup_time runs
  EXPECT_EQ(Health({true, true, true}), 503);               // draining
  EXPECT_EQ(Health({true, true, false, true}), 503);        // drained by a controller
  EXPECT_EQ(Health({true, true, false, true}, true), 503);  // and no starting status covers that
}

TEST(Health, StartingStatusAnswersForAWorkerThatIsNotReadyYet) {
  EXPECT_EQ(Health({false, false, false}, true), 200);
}

TEST(Health, BodyHasTheReferencesShape) {
  EXPECT_EQ(
      HealthReply({true, true, false}, "generate", false, kUptime, false).body,
      R"({"status":"ready","uptime":{"secs":2,"nanos":500000000},"endpoints":{"generate":"ready"}})");
}

// U44: liveness is not readiness.
TEST(Live, IsAlways200) {
  EXPECT_EQ(HealthReply({}, "generate", false, kUptime, true).status, 200);
}

TEST(StatusRoutes, ServeTheKnownPathsAndRefuseOthers) {
  const auto routes = StatusRoutes(
      StatusOptions{},
      "generate",
      [] {
        return HealthState{true, true, false};
      },
      [] { return std::string("metrics"); },
      [] { return kUptime; });
  EXPECT_EQ(routes({"GET", "/health", "", ""}).status, 200);
  EXPECT_EQ(routes({"GET", "/live", "", ""}).status, 200);
  EXPECT_EQ(routes({"GET", "/metrics", "", ""}).body, "metrics");
  EXPECT_EQ(routes({"GET", "/metadata", "", ""}).body, "Discovery metadata not available");
  EXPECT_EQ(routes({"POST", "/engine/sleep", "", "{}"}).body,
            R"({"error":"Route not found","message":"Route /engine/sleep not found"})");
  EXPECT_EQ(routes({"GET", "/nothing", "", ""}).status, 404);
  EXPECT_EQ(routes({"POST", "/health", "", ""}).status, 404);
}

}  // namespace
}  // namespace understudy::worker
