// Whole hand-offs: two engines with their threads, two loops, and TCP between them.
#include "tests/unit/worker/handoff/handoff_rig.h"

#include <random>

namespace understudy::worker {
namespace {

using mocker::EngineType;

class HandoffPair : public ::testing::TestWithParam<EngineType> {};

TEST_P(HandoffPair, M166_APromptGoesFromOneToTheOther) {
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  std::vector<HandoffStep> steps;
  std::promise<std::size_t> tokens;
  prefill.Request(PairIdentity(1), 60, source, &steps);
  const auto begin = std::chrono::steady_clock::now();
  decode.Request(prefill.port, PairIdentity(1), 60, 5, destination, &tokens);
  EXPECT_EQ(destination.Wait(), "");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(source.Wait(), "");
  EXPECT_EQ(fakes::Await(tokens.get_future()), 5U);
  RecordProperty(
      "handoff_us",
      static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  const bool source_first = *OrderOf(GetParam()) == mocker::handoff::Order::kSourceFirst;
  std::vector<HandoffStep> expected = {HandoffStep::kDestinationAccepted,
                                       HandoffStep::kDestinationReserved};
  expected.insert(source_first ? expected.begin() : expected.end(), HandoffStep::kSourceHeld);
  expected.insert(
      expected.end(),
      {HandoffStep::kDestinationActivated, HandoffStep::kSourceReleased, HandoffStep::kCompleted});
  EXPECT_EQ(prefill.rig.Do([&] { return steps; }), expected);
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, TheDestinationMayComeFirst) {
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  decode.Request(prefill.port, PairIdentity(1), 60, 5, destination);
  prefill.Request(PairIdentity(1), 60, source);
  EXPECT_EQ(destination.Wait(), "");
  EXPECT_EQ(source.Wait(), "");
}

TEST_P(HandoffPair, M167_OtherEnginesDoNotMatch) {
  Prefill prefill(GetParam());
  Decode decode(GetParam() == EngineType::kVllm ? EngineType::kSglang : EngineType::kVllm);
  Ending source;
  Ending destination;
  prefill.Request(PairIdentity(1), 60, source);
  decode.Request(prefill.port, PairIdentity(1), 60, 5, destination);
  EXPECT_EQ(source.Wait(), "handoff participant identity or backend mismatch");
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, M212_AClientThatLeavesDuringTheTransferEndsBothSides) {
  Prefill prefill(GetParam(), /*bandwidth=*/1e-6);  // hours
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  std::vector<HandoffStep> steps;
  prefill.Request(PairIdentity(1), 60, source, &steps);
  decode.Request(prefill.port, PairIdentity(1), 60, 5, destination);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (prefill.rig.Do([&] { return steps.size(); }) < 3) {  // held, accepted, reserved
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }
  decode.Cancel(PairIdentity(1));
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  EXPECT_EQ(source.Wait(), "destination disconnected");
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, M125_AShutdownOfThePrefillSideEndsBoth) {
  Prefill prefill(GetParam(), /*bandwidth=*/1e-6);
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  Ending waiting;
  prefill.Request(PairIdentity(1), 60, source);
  decode.Request(prefill.port, PairIdentity(1), 60, 5, destination);
  prefill.Request(PairIdentity(2), 60, waiting);
  prefill.Shutdown();
  // Whether the two had met by then is a matter of time.
  const std::string text = source.Wait();
  EXPECT_TRUE(text == "mocker is shutting down" || text == "handoff manager is shutting down");
  EXPECT_EQ(waiting.Wait(), "handoff manager is shutting down");
  prefill.Close();  // a connection that nobody took by then
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, ManyAtOnceAllEndAlsoTheAbandonedOnes) {
  constexpr std::uint64_t kMany = 200;
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  std::vector<Ending> sources(kMany);
  std::vector<Ending> destinations(kMany);
  std::mt19937 random(17);
  for (std::uint64_t id = 0; id < kMany; ++id) {
    const std::size_t prompt = 1 + random() % 200;
    prefill.Request(PairIdentity(id), prompt, sources[id]);
    decode.Request(prefill.port, PairIdentity(id), prompt, 3, destinations[id]);
    if (random() % 4 == 0) {
      prefill.Cancel(PairIdentity(random() % (id + 1)));
    }
    if (random() % 4 == 0) {
      decode.Cancel(PairIdentity(random() % (id + 1)));
    }
  }
  std::size_t well = 0;
  for (std::uint64_t id = 0; id < kMany; ++id) {
    const std::string source = sources[id].Wait();
    const std::string destination = destinations[id].Wait();
    well += source.empty() && destination.empty() ? 1U : 0U;
    EXPECT_FALSE(destination.empty() && !source.empty()) << source;
  }
  EXPECT_GT(well, kMany / 4);
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  prefill.Close();
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         HandoffPair,
                         ::testing::Values(EngineType::kVllm, EngineType::kSglang),
                         [](const auto& type) {
                           return type.param == EngineType::kVllm ? "Vllm" : "Sglang";
                         });

}  // namespace
}  // namespace understudy::worker
