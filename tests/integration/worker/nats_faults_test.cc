// A server that dies, hangs and comes back. Source: U20 to U22; mission.md M-041.
#include "tests/integration/worker/worker_test.h"

#include <csignal>

namespace understudy::worker {
namespace {

class NatsFaults : public WorkerTest {
 protected:
  void SetUp() override { UseNats(); }
  void KillAndRestart() {
    nats().Kill();
    const auto restarted = nats().Restart();
    ASSERT_TRUE(restarted) << restarted.error().message;
    ASSERT_TRUE(frontend().WaitConnected());
  }
  /// Until a request comes back whole; earlier ones find nobody.
  [[nodiscard]] bool WaitServing(const WorkerProcess& worker) {
    return Eventually([&] {
      const auto call = Send(worker, 5, 3);
      return call->sent() && call->WaitAck() == "" && call->WaitClosed() &&
             call->WhyNotWhole(3).empty();
    });
  }
};

TEST_F(NatsFaults, TwentyRestartsAreSurvivedWithFlatThreadsAndDescriptors) {
  const auto worker = Start(kFree);
  ASSERT_EQ(WhyNotServing(*worker), "");
  std::size_t threads = 0;
  std::size_t descriptors = 0;
  for (int i = 0; i < 20; ++i) {
    KillAndRestart();
    ASSERT_TRUE(WaitServing(*worker)) << "restart " << i;
    ASSERT_TRUE(worker->WaitIdle());
    ASSERT_TRUE(worker->WaitErr("registered"));
    if (i == 1) {
      threads = worker->threads();
      descriptors = worker->descriptors();
    }
  }
  EXPECT_TRUE(Eventually([&] { return worker->threads() <= threads; }))
      << worker->threads() << " threads, were " << threads;
  EXPECT_TRUE(Eventually([&] { return worker->descriptors() <= descriptors; }))
      << worker->descriptors() << " descriptors, were " << descriptors;
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(NatsFaults, StreamsUnderWayDoNotNoticeARestart) {
  const auto worker = Start();
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 8; ++i) {
    calls.push_back(Send(*worker, 5, 100));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitTokens(1));
  }
  KillAndRestart();
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(100), "");
  }
}

TEST_F(NatsFaults, LoadValuesAreSaidAgainAfterAReconnect) {
  const auto worker = Start(Arguments{"--block-size", "1024"});
  const auto call = Send(*worker, 5, 900);
  ASSERT_TRUE(call->WaitTokens(1));
  frontend().WatchLoad(ns());
  const auto published = worker->Metric("understudy_load_messages_total");
  KillAndRestart();
  // The value does not change (one block holds the whole stream), so only a repetition can count.
  EXPECT_TRUE(
      Eventually([&] { return worker->Metric("understudy_load_messages_total") > published; }));
  frontend().Control(*call, StreamControl::kKill);
  EXPECT_TRUE(
      frontend().WaitLoads([](const auto& loads) { return loads.back().kv_used_blocks == 0U; }));
}

TEST_F(NatsFaults, AnOutageIsOneWarningPerConnectionAndTheEndOfItIsTold) {
  const auto worker = Start(kFree);
  nats().Kill();
  ASSERT_TRUE(worker->WaitMetric("understudy_nats_links_lost_total", 2));
  ASSERT_TRUE(nats().Restart());
  ASSERT_TRUE(Eventually([&] { return worker->CountErr("NATS reconnected") == 2; }));
  EXPECT_EQ(worker->CountErr("NATS connection lost"), 2U);
  EXPECT_EQ(worker->CountErr(" ERROR "), 0U) << worker->err();
}

TEST_F(NatsFaults, ShutdownWhileTheServerIsDownExitsWithZero) {
  const auto worker = Start(kFree);
  nats().Kill();
  ASSERT_TRUE(worker->WaitErr("NATS connection lost"));
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Records("instances").empty());
}

}  // namespace
}  // namespace understudy::worker
