// Many streams, big requests and slow readers: nothing is lost, doubled or out of order.
// Source: U39, U41; mission.md M-022, M-104, M-107.
#include "tests/integration/worker/worker_test.h"

#include <fstream>
#include <numeric>

namespace understudy::worker {
namespace {

class Load : public WorkerTest {
 protected:
  static constexpr std::uint32_t kSlowTokens = 2000;
  static constexpr std::size_t kSlowStreams = 64;
  const Arguments kSeeded = kFree + Arguments{"--seed", "11"};

  std::vector<std::vector<std::uint32_t>> TokensOfAFastReader() {
    const auto worker = Start(kSeeded);
    std::vector<CallPtr> calls;
    for (std::size_t i = 0; i < kSlowStreams; ++i) {
      calls.push_back(Send(*worker, 10, kSlowTokens));
    }
    std::vector<std::vector<std::uint32_t>> all;
    for (const auto& call : calls) {
      EXPECT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->WhyNotWhole(kSlowTokens), "");
      all.push_back(call->tokens());
    }
    return all;
  }
};

TEST_F(Load, SlowReadersGetEveryTokenOnceAndInOrder) {
  const auto expected = TokensOfAFastReader();  // same seed, same order of arrival
  const auto worker = Start(kSeeded);
  std::vector<std::unique_ptr<PeerListener>> listeners;
  for (std::size_t i = 0; i < kSlowStreams; ++i) {
    listeners.push_back(std::make_unique<PeerListener>(false, 4096));
    auto spec = Spec(*worker, 10, kSlowTokens);
    spec.address = listeners.back()->address();
    static_cast<void>(frontend().Send(spec));
  }
  // Nobody reads until the engine has said everything.
  ASSERT_TRUE(worker->WaitMetric("understudy_tokens_sent_total", kSlowTokens * kSlowStreams));
  EXPECT_EQ(worker->Metric("understudy_response_streams_open"), kSlowStreams);
  std::vector<std::unique_ptr<Peer>> peers;
  for (const auto& listener : listeners) {
    peers.push_back(listener->Accept());
    ASSERT_TRUE(peers.back());
  }
  for (std::size_t i = 0; i < kSlowStreams; ++i) {
    std::string bytes;
    while (!bytes.ends_with("\"sentinel\"")) {
      const auto more = peers[i]->Read(1);
      ASSERT_FALSE(more.empty()) << "stream " << i << " ended early";
      bytes += more;
    }
    const auto reading = Read(bytes);
    EXPECT_TRUE(reading.whole_frames);
    EXPECT_EQ(reading.tokens, expected[i]) << "stream " << i;
    peers[i]->Close();
  }
  EXPECT_TRUE(worker->WaitIdle());
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 0);
}

TEST_F(Load, TokensOf256StreamsAreConserved) {
  const auto worker = Start(kFree);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 256; ++i) {
    auto spec = Spec(*worker, 0, 200, i % 2 == 0 ? PayloadCodec::kJson : PayloadCodec::kMsgpack);
    spec.request.token_ids = Prompt(50, i);
    calls.push_back(frontend().Send(spec));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(200), "");
  }
  EXPECT_EQ(worker->Metric("understudy_tokens_sent_total"), 256 * 200);
  EXPECT_EQ(worker->Metric("dynamo_component_requests_total"), 256);
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Load, RequestsThatRaceTheStartOfTheEngineAreAllServed) {
  const auto worker = Start(kFree + Arguments{"--startup-time", "0.3"});
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    calls.push_back(Send(*worker, 5, 3));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(3), "");
  }
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Load, APromptThatCanNeverFitIsRejectedInItsStreamAndOthersGoOn) {
  const auto worker = Start(Arguments{"--num-gpu-blocks-override", "8", "--block-size", "16"});
  const auto other = Send(*worker, 10, 40);
  ASSERT_TRUE(other->WaitTokens(1));
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    const auto big = Send(*worker, 1000, 10, codec);
    ASSERT_TRUE(big->WaitClosed());
    EXPECT_EQ(big->error(), "request rejected: KV footprint exceeds pool capacity");
    EXPECT_EQ(big->WhyNotRefusedInBand(), "");
    EXPECT_EQ(big->tokens().size(), 0U);
  }
  ASSERT_TRUE(other->WaitClosed());
  EXPECT_EQ(other->WhyNotWhole(40), "");
  EXPECT_EQ(worker->Metric("dynamo_component_errors_total", "generate"), 2);
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Load, ARequestOf200kTokensAmid32StreamsLeavesThemWhole) {
  const TempDir dir;
  std::ofstream(dir.path() + "/nats.conf") << "max_payload: 8388608\n";
  UseNats({"-c", dir.path() + "/nats.conf"});
  const auto worker = Start(Arguments{"--speedup-ratio", "20"});
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 32; ++i) {
    auto spec = Spec(*worker, 0, 300);
    spec.request.token_ids = Prompt(20, i + 1);
    calls.push_back(frontend().Send(spec));
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitTokens(5));
  }
  for (const auto codec : {PayloadCodec::kJson, PayloadCodec::kMsgpack}) {
    calls.push_back(Send(*worker, 200'000, 300, codec));
    ASSERT_EQ(calls.back()->WaitAck(), "") << calls.back()->problem();
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed()) << call->problem() << call->WaitAck().value_or("no ack");
    EXPECT_EQ(call->WhyNotWhole(300), "");
  }
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Load, LiveAnswersWhileTheWorkerIsBusy) {
  const auto worker = Start(kFree);
  std::vector<CallPtr> calls;
  for (std::uint32_t i = 0; i < 64; ++i) {
    calls.push_back(Send(*worker, 20, 2000));
  }
  int asked = 0;
  do {
    EXPECT_EQ(worker->Get("/live").status, 200);
    EXPECT_EQ(worker->Get("/health").status, 200);
    ++asked;
  } while (worker->Metric("dynamo_component_inflight_requests") != 0);
  EXPECT_GE(asked, 1);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(2000), "");
  }
}

}  // namespace
}  // namespace understudy::worker
