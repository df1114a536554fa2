// What one request's response stream looks like. Source: wire.md 6, mission.md A.9.
#include "tests/integration/worker/worker_test.h"

#include <algorithm>
#include <set>

namespace understudy::worker {
namespace {

class StreamShape : public WorkerTest, public ::testing::WithParamInterface<PayloadCodec> {};
INSTANTIATE_TEST_SUITE_P(Codecs,
                         StreamShape,
                         ::testing::Values(PayloadCodec::kJson, PayloadCodec::kMsgpack),
                         [](const auto& codec) {
                           return codec.param == PayloadCodec::kJson ? "Json" : "Msgpack";
                         });

TEST_P(StreamShape, IsHandshakePrologueTokensFinishCompleteFinalSentinel) {
  const auto worker = Start();
  const auto call = Send(*worker, 20, 30, GetParam());
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(30), "");
  EXPECT_EQ(call->WaitAck(), "");
  ASSERT_TRUE(call->usage());
  EXPECT_EQ(call->usage()->prompt_tokens, 20U);
  EXPECT_EQ(call->usage()->completion_tokens, 30U);
  EXPECT_EQ(call->usage()->cached_tokens, 0U);
}

TEST_P(StreamShape, HoldsExactlyMaxTokens) {
  const auto worker = Start(kFree);
  for (const std::uint32_t count : {1U, 2U, 63U, 64U, 65U, 1000U}) {
    const auto call = Send(*worker, 10, count, GetParam());
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(count), "");
  }
}

TEST_P(StreamShape, RefusesABudgetOfZeroAndAMissingOne) {
  const auto worker = Start(kFree);
  auto spec = Spec(*worker, 5, 0, GetParam());
  const auto zero = frontend().Send(spec);
  ASSERT_TRUE(zero->WaitClosed());
  EXPECT_EQ(zero->WhyNotRefusedInBand(), "");
  EXPECT_NE(zero->error().find("live requests must generate at least one output token"),
            std::string::npos);
  spec.request.max_tokens.reset();
  const auto missing = frontend().Send(spec);
  ASSERT_TRUE(missing->WaitClosed());
  EXPECT_EQ(missing->WhyNotRefusedInBand(), "");
  EXPECT_NE(missing->error().find("max_output_tokens must be specified for mocker"),
            std::string::npos);
  EXPECT_EQ(WhyNotServing(*worker), "");
}

TEST_P(StreamShape, TellsHowManyPromptTokensWereCached) {
  const auto worker = Start(kFree);
  const auto cold = Send(*worker, 130, 3, GetParam());
  ASSERT_TRUE(cold->WaitClosed());
  const auto warm = Send(*worker, 130, 3, GetParam());
  ASSERT_TRUE(warm->WaitClosed());
  EXPECT_EQ(warm->WhyNotWhole(3), "");
  ASSERT_TRUE(cold->usage() && warm->usage());
  EXPECT_EQ(cold->usage()->cached_tokens, 0U);
  EXPECT_EQ(warm->usage()->cached_tokens, 128U) << "two full blocks of 64";
}

class Stream : public WorkerTest {};

TEST_F(Stream, TokensAreSpreadOver1000To1999) {
  const auto worker = Start(kFree);
  const auto call = Send(*worker, 10, 10'000);
  ASSERT_TRUE(call->WaitClosed());
  ASSERT_EQ(call->WhyNotWhole(10'000), "");
  const auto tokens = call->tokens();
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  EXPECT_GE(*least, 1000U);
  EXPECT_LE(*most, 1999U);
  // Of 1000 values about 45 per million are missed by 10,000 even draws.
  EXPECT_GE(std::set<std::uint32_t>(tokens.begin(), tokens.end()).size(), 990U);
}

TEST_F(Stream, TokensRepeatWithTheSeedAndDifferWithoutIt) {
  const auto run = [this](const Arguments& seed) {
    const auto worker = Start(kFree + seed);
    std::vector<std::vector<std::uint32_t>> all;
    for (int i = 0; i < 3; ++i) {
      const auto call = Send(*worker, 10, 100);
      EXPECT_TRUE(call->WaitClosed());
      all.push_back(call->tokens());
    }
    return all;
  };
  const auto first = run({"--seed", "7"});
  EXPECT_EQ(first, run({"--seed", "7"}));
  EXPECT_NE(first, run({"--seed", "8"}));
  EXPECT_NE(run({}), run({}));
  EXPECT_NE(first[0], first[1]) << "requests of one run differ too";
}

TEST_F(Stream, WithAnEmptyPromptIsServed) {
  const auto worker = Start(kFree);
  const auto call = Send(*worker, 0, 5);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(5), "");
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_TRUE(worker->WaitIdle());
}

TEST_F(Stream, ConnectionStaysOpenAfterTheSentinelUntilThePeerCloses) {
  const auto worker = Start(kFree);
  PeerListener listener;
  auto spec = Spec(*worker, 10, 5);
  spec.address = listener.address();
  const auto call = frontend().Send(spec);
  const auto peer = listener.Accept();
  ASSERT_TRUE(peer);
  std::string bytes;
  while (!Read(bytes).Has(Kind::kSentinel)) {
    const auto more = peer->Read(1);
    ASSERT_FALSE(more.empty()) << "closed before the sentinel";
    bytes += more;
  }
  EXPECT_TRUE(worker->WaitMetric("dynamo_component_inflight_requests", 0));
  EXPECT_EQ(worker->Metric("understudy_response_streams_open"), 1);
  peer->HalfClose();
  EXPECT_TRUE(worker->WaitMetric("understudy_response_streams_open", 0));
  std::string rest;
  EXPECT_NE(peer->ReadToEnd(&rest), Peer::End::kNothing);
  EXPECT_EQ(rest, "") << "nothing may follow the sentinel";
  EXPECT_EQ(worker->Metric("dynamo_component_cancellation_total"), 0);
}

TEST_F(Stream, CountsAreExactWhenTheLastFrameHasBeenRead) {
  const auto worker = Start(kFree);
  for (int i = 0; i < 5; ++i) {
    const auto call = Send(*worker, 10, 20);
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(worker->Metric("understudy_tokens_sent_total"), 20.0 * (i + 1));
    EXPECT_EQ(worker->Metric("dynamo_component_requests_total"), 1.0 * (i + 1));
    EXPECT_EQ(worker->Metric("dynamo_component_inflight_requests"), 0);
    EXPECT_EQ(worker->Metric("dynamo_component_request_duration_seconds_count"), 1.0 * (i + 1));
  }
}

TEST_F(Stream, DialsAnIpv6AddressWithoutBrackets) {
  const auto worker = Start(kFree);
  PeerListener listener(true);
  auto spec = Spec(*worker, 10, 5);
  spec.address = listener.address();
  const auto call = frontend().Send(spec);
  const auto peer = listener.Accept();
  ASSERT_TRUE(peer);
  EXPECT_EQ(Read(ReadTokens(*peer, 5)).tokens.size(), 5U);
}

}  // namespace
}  // namespace understudy::worker
