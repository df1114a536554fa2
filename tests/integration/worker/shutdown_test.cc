// Leaving: discovery first, then the streams, then the process. Source: wire.md 7, M-128 to M-130,
// U24, U33.
#include "tests/integration/worker/worker_test.h"

#include <csignal>
#include <unistd.h>

namespace understudy::worker {
namespace {

class Shutdown : public WorkerTest {
 protected:
  [[nodiscard]] bool WaitGone() const {
    return Eventually([&] { return ServingRecords().empty(); });
  }
};

class ShutdownBy : public Shutdown, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Signals,
                         ShutdownBy,
                         ::testing::Values(SIGTERM, SIGINT),
                         [](const auto& number) {
                           return number.param == SIGTERM ? "Term" : "Int";
                         });

TEST_P(ShutdownBy, TakesTheInstanceAwayFirstAndDeliversEveryToken) {
  const auto worker = Start();
  ASSERT_EQ(ServingRecords().size(), 1U);
  ASSERT_EQ(Records("mdc").size(), 1U);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 8; ++i) {
    calls.push_back(Send(*worker, 10 + i, 300));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitTokens(1));
  }
  worker->Signal(GetParam());
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(Records("mdc").size(), 1U) << "the card goes last";
  for (const auto& call : calls) {
    EXPECT_LT(call->tokens().size(), 300U) << "the streams are still under way";
  }
  EXPECT_EQ(worker->Get("/health").status, 503);
  EXPECT_EQ(worker->Get("/live").status, 200);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(300), "");
  }
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Records("mdc").empty());
  EXPECT_TRUE(Records("event_channels").empty());
}

TEST_P(ShutdownBy, OfAnIdleWorkerExitsWithZero) {
  const auto worker = Start();
  worker->Signal(GetParam());
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Records("instances").empty());
  EXPECT_TRUE(Records("mdc").empty());
}

TEST_P(ShutdownBy, ASecondTimeClosesStreamsAtOnceWithoutCompleteFinal) {
  const auto worker = Start();
  const auto call = Send(*worker, 5, kEndless);
  ASSERT_TRUE(call->WaitTokens(1));
  worker->Signal(GetParam());
  ASSERT_TRUE(worker->WaitErr("Phase 2"));
  worker->Signal(GetParam());
  ASSERT_TRUE(call->WaitClosed());
  const auto kinds = call->kinds();
  EXPECT_EQ(kinds.back(), Kind::kItem) << "no complete_final: the frontend shall migrate it";
  EXPECT_EQ(call->problem(), "");
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(Shutdown, AtTheDrainLimitClosesTheRestWithoutCompleteFinal) {
  environment["DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"] = "1";
  const auto worker = Start();
  const auto call = Send(*worker, 5, kEndless);
  const auto crawling = Send(*worker, 8000, kEndless, PayloadCodec::kMsgpack);
  ASSERT_TRUE(call->WaitTokens(1));
  ASSERT_TRUE(crawling->WaitFrame(Kind::kPrologue));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(call->WaitClosed());
  ASSERT_TRUE(crawling->WaitClosed());
  EXPECT_EQ(call->kinds().back(), Kind::kItem);
  EXPECT_EQ(call->problem() + crawling->problem(), "");
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Records("mdc").empty());
  EXPECT_EQ(worker->CountErr("drain limit reached"), 1U);
}

TEST_F(Shutdown, RequestsDuringTheGraceAreServedAndLaterOnesFindNobody) {
  const auto worker = Start(Arguments{"--drain-grace-ms", "3000"});
  const auto running = Send(*worker, 5, kEndless);
  ASSERT_TRUE(running->WaitTokens(1));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(WhyNotServing(*worker), "") << "who had the old list is still served";
  ASSERT_TRUE(worker->WaitErr("Phase 2"));
  EXPECT_TRUE(Eventually([&] { return Send(*worker, 5, 5)->WaitAck() == "status 503"; }));
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(Shutdown, WaitsForASlowReaderOfAStreamThatTheEngineHasFinished) {
  const auto worker = Start(kFree);
  PeerListener listener(false, 4096);
  constexpr std::uint32_t kTokens = 100'000;  // more than the sockets' buffers hold
  auto spec = Spec(*worker, 10, kTokens);
  spec.address = listener.address();
  const auto call = frontend().Send(spec);
  const auto peer = listener.Accept();
  ASSERT_TRUE(peer);
  ASSERT_TRUE(worker->WaitMetric("understudy_tokens_sent_total", kTokens));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(worker->WaitErr("Phase 2"));
  // Longer than a stream with nothing left to send is waited for: a stimulus, not a wait.
  ::usleep(1'500'000);
  std::string bytes;
  while (!bytes.ends_with("\"sentinel\"")) {
    const auto more = peer->Read(1);
    ASSERT_FALSE(more.empty()) << "cut after " << Read(bytes).tokens.size() << " tokens";
    bytes += more;
  }
  EXPECT_EQ(Read(bytes).tokens.size(), kTokens);
  peer->Close();
  EXPECT_EQ(worker->WaitExit(), 0);
}

TEST_F(Shutdown, UnderFreeRunningLoadExitsWithZero) {
  for (int round = 0; round < 5; ++round) {
    const auto worker = Start(kFree);
    std::vector<CallPtr> calls;
    for (std::uint32_t i = 0; i < 32; ++i) {
      calls.push_back(Send(*worker, 20, 20'000));
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(call->WaitFrame(Kind::kPrologue));
    }
    worker->Signal(SIGTERM);
    worker->Signal(SIGINT);  // at once to the limit
    for (const auto& call : calls) {
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->problem(), "");
    }
    EXPECT_EQ(worker->WaitExit(), 0) << worker->err();
  }
}

TEST_F(Shutdown, WithAServerThatDoesNotAnswerIsBounded) {
  UseNats();
  const auto worker = Start();
  const auto call = Send(*worker, 5, 50);
  ASSERT_TRUE(call->WaitTokens(1));
  nats().Pause();
  worker->Signal(SIGTERM);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(50), "") << "the response plane needs no server";
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Records("mdc").empty());
  nats().Resume();
}

TEST_F(Shutdown, DuringAStartThatHangsExits) {
  UseNats();
  environment["NATS_SERVER"] = nats().url();
  nats().Pause();
  const auto worker = Launch({});
  ASSERT_TRUE(worker->WaitErr("starting"));
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_EQ(worker->out(), "");
  nats().Resume();
}

TEST_F(Shutdown, AtAnyMomentOfTheStartLeavesNoRecords) {
  const std::vector<std::string> moments = {"", "starting", "lease held", "registered"};
  for (const auto& moment : moments) {
    const auto worker = Launch({});
    ASSERT_TRUE(worker->WaitErr("starting"));
    ASSERT_TRUE(worker->WaitErr(moment.empty() ? "starting" : moment));
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0) << moment;
    EXPECT_TRUE(Records("instances").empty()) << moment;
    EXPECT_TRUE(Records("mdc").empty()) << moment;
  }
}

TEST_F(Shutdown, ASecondStartOverRecordsOfAKilledWorkerServes) {
  {
    const auto killed = Start();
    killed->Signal(SIGKILL);
    EXPECT_EQ(killed->WaitExit(), 128 + SIGKILL);
  }
  EXPECT_EQ(ServingRecords().size(), 1U);
  const auto worker = Start(kFree);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_F(Shutdown, WithMessagesOnTheirWayInExitsWithZeroEveryTime) {
  for (int round = 0; round < 5; ++round) {
    const auto worker = Start(kFree + Arguments{"--drain-grace-ms", "0"});
    std::vector<CallPtr> calls;
    for (int i = 0; i < 100; ++i) {
      calls.push_back(Send(*worker, 20, 20));
      if (i == 50) {
        worker->Signal(SIGTERM);
      }
    }
    EXPECT_EQ(worker->WaitExit(), 0) << worker->err();
    for (const auto& call : calls) {
      if (call->connections() == 0) {
        continue;  // it found nobody, or came after the end of the subscription
      }
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->WhyNotWhole(20), "") << "taken means served";
    }
  }
}

}  // namespace
}  // namespace understudy::worker
