// Requests that end in the middle of a hand-off: clients that leave and workers that die, at each
// stage. U34, U35, U36; M-181, M-183, M-212; C-075, C-076.
#include "tests/integration/worker/disagg_case.h"

#include <csignal>
#include <ostream>

namespace understudy::worker {
namespace {

/// 60 tokens take hours to go over.
const Arguments kEndlessTransfer = {
    "--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.00001"};
/// Computing them takes about a second, too. Commands wait for the end of a pass.
const Arguments kSlowPrefill = kEndlessTransfer + Arguments{"--speedup-ratio", "0.005"};
constexpr const char* kDestinationEnded = "destination handoff ended before completion";

struct Leaving {
  const char* name;
  void (*act)(FakeFrontend& frontend, fakes::Call& call);
};
void PrintTo(const Leaving& value, std::ostream* out) {
  *out << value.name;
}
const Leaving kLeavings[] = {
    {"Kill",
     [](FakeFrontend& frontend, fakes::Call& call) {
       frontend.Control(call, StreamControl::kKill);
     }},
    {"Stop",
     [](FakeFrontend& frontend, fakes::Call& call) {
       frontend.Control(call, StreamControl::kStop);
     }},
    {"Fin", [](FakeFrontend& frontend, fakes::Call& call) { frontend.Close(call); }},
};

class HandoffFaults : public HandoffTest {
 protected:
  /// Both requests of one attempt; the destination's begins when the source has its prologue.
  struct Pair {
    CallPtr source, destination;
  };
  Pair SendBoth(const WorkerProcess& prefill,
                const WorkerProcess& decode,
                std::uint32_t max_tokens,
                std::size_t prompt_tokens = 60) {
    const auto attempt = NewAttempt(BootstrapPort(prefill), prompt_tokens);
    Pair pair;
    pair.source = SendTo(prefill, attempt);
    EXPECT_TRUE(pair.source->WaitFrame(Kind::kPrologue));
    pair.destination = SendTo(decode, attempt, max_tokens);
    EXPECT_TRUE(pair.destination->WaitFrame(Kind::kPrologue));
    return pair;
  }
  /// A pass is under way: its load is not told before its end.
  [[nodiscard]] static bool WaitInPass(const WorkerProcess& worker) {
    return Eventually(
        [&] { return worker.DumpState().find("\"in_pass\":1") != std::string::npos; });
  }
  static void Kill(WorkerProcess& worker) {
    worker.Signal(SIGKILL);
    EXPECT_EQ(worker.WaitExit(), 128 + SIGKILL);
  }
  static void ExpectError(fakes::Call& call, std::string_view text) {
    ASSERT_TRUE(call.WaitClosed());
    EXPECT_EQ(call.error(), text);
    EXPECT_EQ(call.kinds().back(), Kind::kSentinel) << "an error ends a stream in order";
  }
};

class HandoffLeft : public HandoffFaults, public ::testing::WithParamInterface<Leaving> {
 protected:
  void Leave(fakes::Call& call) {
    GetParam().act(frontend(), call);
    ASSERT_TRUE(call.WaitClosed());
    const auto kinds = call.kinds();
    EXPECT_NE(kinds.back(), Kind::kSentinel) << "nothing is said to who has left";
  }
  void ExpectServing(const WorkerProcess& prefill, const WorkerProcess& decode) {
    ExpectIdle(prefill);
    ExpectIdle(decode);
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, HandoffLeft, ::testing::ValuesIn(kLeavings), [](const auto& way) {
  return way.param.name;
});

TEST_P(HandoffLeft, M172_BeforeTheDestinationCameFreesTheSource) {
  const auto prefill = StartSource();
  const auto source = SendTo(*prefill, NewAttempt(1));
  ASSERT_TRUE(source->WaitFrame(Kind::kPrologue));
  Leave(*source);
  ExpectIdle(*prefill);
  EXPECT_EQ(prefill->Metric("understudy_handoffs_total", "cancelled"), 1);
  const auto decode = StartDecode();
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_P(HandoffLeft, M173_BeforeTheSourceCameRetiresTheAttempt) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto destination = SendTo(*decode, attempt, 4);
  ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 1));
  Leave(*destination);
  ExpectIdle(*decode);
  ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 0));
  const auto late = SendTo(*prefill, attempt);
  ExpectError(*late, "handoff session is already active or retired");
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
  ExpectServing(*prefill, *decode);
}

// U36: the prompt is being computed.
TEST_P(HandoffLeft, U36TheSourcesClientDuringThePrefillFreesBothSides) {
  const auto prefill = StartSource(kSlowPrefill);
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, 4);
  ASSERT_TRUE(WaitInPass(*prefill));
  Leave(*pair.source);
  ExpectError(*pair.destination, kDestinationEnded);
  ExpectServing(*prefill, *decode);
}

TEST_P(HandoffLeft, U36TheDestinationsClientDuringThePrefillFreesBothSides) {
  const auto prefill = StartSource(kSlowPrefill);
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, 4);
  ASSERT_TRUE(WaitInPass(*prefill));
  Leave(*pair.destination);
  ExpectError(*pair.source, "destination disconnected");
  ExpectServing(*prefill, *decode);
}

// M-212.
TEST_P(HandoffLeft, M183_M212_U36_TheDestinationsClientDuringTheTransferFreesBothSides) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, 4);
  ASSERT_TRUE(pair.source->WaitTokens(1));
  ASSERT_TRUE(Eventually([&] { return decode->Metric("understudy_engine_blocks_active") > 0; }))
      << "room is reserved";
  EXPECT_GT(prefill->Metric("understudy_engine_blocks_active"), 0) << "the source is held";
  Leave(*pair.destination);
  ExpectError(*pair.source, "destination disconnected");
  ExpectServing(*prefill, *decode);
}

TEST_P(HandoffLeft, TheSourcesClientDuringTheTransferFreesBothSides) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, 4);
  ASSERT_TRUE(pair.source->WaitTokens(1));
  Leave(*pair.source);
  ExpectError(*pair.destination, kDestinationEnded);
  ExpectServing(*prefill, *decode);
}

TEST_P(HandoffLeft, DuringTheDecodeFreesTheDestinationAndLeavesTheSourceAlone) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, kEndless);
  ASSERT_TRUE(pair.destination->WaitTokens(3));
  ASSERT_TRUE(pair.source->WaitClosed());
  EXPECT_EQ(pair.source->WhyNotWhole(1), "");
  Leave(*pair.destination);
  ExpectServing(*prefill, *decode);
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_P(HandoffLeft, WhileTheDestinationWaitsForRoomFreesBothSides) {
  const Arguments blocks{"--block-size", "16"};
  const auto prefill = StartSource(blocks);
  const auto decode = StartDecode(blocks + Arguments{"--num-gpu-blocks-override", "8"});
  const auto hog = SendBoth(*prefill, *decode, kEndless, 100);
  ASSERT_TRUE(hog.destination->WaitTokens(1));
  const auto pair = SendBoth(*prefill, *decode, 4, 100);
  ASSERT_TRUE(pair.source->WaitTokens(1));
  Leave(*pair.destination);
  ExpectError(*pair.source, "destination disconnected");
  frontend().Control(*hog.destination, StreamControl::kKill);
  ExpectServing(*prefill, *decode);
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_P(HandoffLeft, M264_DuringTheDelayWithoutBootstrapEndsIt) {
  const auto prefill = StartPrefill(kEndlessTransfer);
  const auto call = Send(*prefill, 60, 1);
  ASSERT_TRUE(call->WaitTokens(1));
  Leave(*call);
  ExpectIdle(*prefill);
}

TEST_F(HandoffFaults, C075AKilledPrefillWorkerEndsItsHandoffsAtTheDecodeWorker) {
  for (const auto& stage : {kSlowPrefill, kEndlessTransfer}) {
    const auto prefill = StartSource(stage);
    const auto decode = StartDecode();
    const auto pair = SendBoth(*prefill, *decode, 4);
    ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 0));
    Kill(*prefill);
    ASSERT_TRUE(pair.destination->WaitClosed());
    const auto error = pair.destination->error();  // a reset when it had unread bytes
    EXPECT_TRUE(error == kDestinationEnded || error == "Connection reset by peer (os error 104)")
        << error;
    EXPECT_EQ(pair.destination->kinds().back(), Kind::kSentinel);
    ExpectIdle(*decode);
    const auto next = StartSource();
    EXPECT_EQ(WhyNotHandedOver(*next, *decode), "");
  }
}

TEST_F(HandoffFaults, AKilledPrefillWorkerDoesNotHurtWhatIsDecodedAlready) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto pair = SendBoth(*prefill, *decode, 100);
  ASSERT_TRUE(pair.destination->WaitTokens(1));
  ASSERT_TRUE(pair.source->WaitClosed());
  Kill(*prefill);
  ASSERT_TRUE(pair.destination->WaitClosed());
  EXPECT_EQ(pair.destination->WhyNotWhole(100), "");
  ExpectIdle(*decode);
}

TEST_F(HandoffFaults, C076AKilledDecodeWorkerGivesTheSourcesBlocksBack) {
  for (const auto& stage : {kSlowPrefill, kEndlessTransfer}) {
    const auto prefill = StartSource(stage);
    const auto decode = StartDecode();
    const auto pair = SendBoth(*prefill, *decode, 4);
    ASSERT_TRUE(prefill->WaitMetric("understudy_handoffs_pending", 0));
    Kill(*decode);
    ASSERT_TRUE(pair.source->WaitClosed());
    EXPECT_NE(pair.source->error(), "");
    ExpectIdle(*prefill);
  }
}

TEST_F(HandoffFaults, AResetOfTheConnectionIsNoSecretEither) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  ASSERT_NE(peer->ReceiveUntil("Action"), "closed");
  peer->peer().Reset();
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_NE(source->error(), "");
  ExpectIdle(*prefill);
}

// Clients that come and go at random moments, the seed of each round in its name.
TEST_F(HandoffFaults, NothingIsLeftAfterManyClientsLeftAtAnyMoment) {
  const auto prefill = StartSource({"--kv-bytes-per-token", "100000", "--speedup-ratio", "10"});
  const auto decode = StartDecode({"--speedup-ratio", "10"});
  std::uint32_t seed = 12345;
  const auto draw = [&seed](std::uint32_t below) {
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8U) % below;
  };
  std::vector<Pair> pairs;
  for (int i = 0; i < 200; ++i) {
    const auto attempt = NewAttempt(BootstrapPort(*prefill), 20 + draw(400));
    Pair pair;
    if (draw(4) == 0) {
      pair.destination = SendTo(*decode, attempt, 1 + draw(40));
    }
    pair.source = SendTo(*prefill, attempt);
    if (!pair.destination) {
      pair.destination = SendTo(*decode, attempt, 1 + draw(40));
    }
    pairs.push_back(pair);
    const auto& victim = pairs[draw(static_cast<std::uint32_t>(pairs.size()))];
    if (draw(2) == 0) {
      frontend().Control(draw(2) == 0 ? *victim.source : *victim.destination, StreamControl::kKill);
    }
  }
  for (const auto& pair : pairs) {
    ASSERT_TRUE(pair.source->WaitClosed() && pair.destination->WaitClosed());
  }
  ExpectIdle(*prefill);
  ExpectIdle(*decode);
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

}  // namespace
}  // namespace understudy::worker
