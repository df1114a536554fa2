// Beyond a limit: refused in the ack, in the form that keeps the worker routable for the caller's
// release, with a load message behind it. Source: wire.md 4.4.
#include "tests/integration/worker/worker_test.h"

namespace understudy::worker {
namespace {

class Overload : public WorkerTest {
 protected:
  /// One block holds a whole stream, so that its load does not change while it runs.
  const Arguments kOneBlock = {"--block-size", "1024"};

  void ExpectRefused(const WorkerProcess& worker, PayloadCodec codec, const std::string& with) {
    const auto call = Send(worker, 5, 5, codec);
    const auto ack = call->WaitAck();
    ASSERT_TRUE(ack);
    EXPECT_TRUE(ack->starts_with(with)) << *ack;
    EXPECT_EQ(call->connections(), 0U);
  }
};

TEST_F(Overload, AtTheStreamLimitEachCallerGetsTheFormOfItsRelease) {
  const auto worker = Start(Arguments{"--open-streams-max", "1"});
  const auto first = Send(*worker, 5, kEndless);
  ASSERT_TRUE(first->WaitTokens(1));
  ExpectRefused(*worker, PayloadCodec::kJson, "Server unavailable:");
  ExpectRefused(*worker, PayloadCodec::kMsgpack, "Server overloaded:");
  EXPECT_EQ(worker->Metric("understudy_requests_refused_total", "overloaded"), 2);
  const auto tokens = first->tokens().size();
  EXPECT_TRUE(first->WaitTokens(tokens + 2)) << "the stream that fills the limit goes on";
  frontend().Control(*first, StreamControl::kKill);
  ASSERT_TRUE(first->WaitClosed());
  ASSERT_TRUE(worker->WaitIdle());
  EXPECT_EQ(WhyNotServing(*worker), "") << "room is back";
}

TEST_F(Overload, AtTheWaitingLimitEachCallerGetsTheFormOfItsRelease) {
  const auto worker = Start(Arguments{"--waiting-requests-max", "1", "--max-num-seqs", "1"});
  const auto running = Send(*worker, 5, kEndless);
  ASSERT_TRUE(running->WaitTokens(1));
  const auto waiting = Send(*worker, 5, 5);
  ASSERT_EQ(waiting->WaitAck(), "");
  ExpectRefused(*worker, PayloadCodec::kJson, "Server unavailable:");
  ExpectRefused(*worker, PayloadCodec::kMsgpack, "Server overloaded:");
  frontend().Control(*running, StreamControl::kKill);
  ASSERT_TRUE(waiting->WaitClosed());
  EXPECT_EQ(waiting->WhyNotWhole(5), "") << "who was taken before is served";
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(Overload, ALoadMessageGoesOutAfterARefusalAndWhenRoomIsBack) {
  frontend().WatchLoad(ns());
  const auto worker = Start(kOneBlock + Arguments{"--open-streams-max", "1"});
  const auto first = Send(*worker, 5, 900);
  ASSERT_TRUE(first->WaitTokens(2));
  ASSERT_TRUE(frontend().WaitLoads(
      [](const auto& loads) { return !loads.empty() && loads.back().kv_used_blocks == 1U; }));
  const auto quiet = frontend().loads().size();
  ExpectRefused(*worker, PayloadCodec::kJson, "Server unavailable:");
  EXPECT_TRUE(frontend().WaitLoads([&](const auto& loads) {
    return loads.size() > quiet && loads.back().kv_used_blocks == 1U;
  })) << "the same value again, so that the router looks at this worker";
  frontend().Control(*first, StreamControl::kKill);
  EXPECT_TRUE(
      frontend().WaitLoads([](const auto& loads) { return loads.back().kv_used_blocks == 0U; }));
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Overload, IsLoggedOncePerEpisode) {
  const auto worker = Start(Arguments{"--open-streams-max", "1"});
  const auto first = Send(*worker, 5, kEndless);
  ASSERT_TRUE(first->WaitTokens(1));
  for (int i = 0; i < 20; ++i) {
    ExpectRefused(*worker, PayloadCodec::kJson, "Server unavailable:");
  }
  EXPECT_EQ(worker->CountErr("requests are refused"), 1U);
}

}  // namespace
}  // namespace understudy::worker
