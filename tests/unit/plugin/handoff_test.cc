// Both ends of a hand-off as a rank sees them: blocks stay until they are released, and room is
// made before a prompt arrives.
#include "tests/unit/plugin/rank.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Kind = HandoffNotice::Kind;
using engine::OutputKind;

class HandoffTest : public ::testing::Test {
 protected:
  static SchedulerConfig Config(WorkerType type) {
    SchedulerConfig config = SmallRank();
    config.worker_type = type;
    return config;
  }

  void ExpectBlocks(TestRank& rank, std::uint64_t used, std::uint64_t cached) {
    EXPECT_EQ(rank.any().blocks().used, used);
    EXPECT_EQ(rank.any().blocks().cached, cached);
    EXPECT_EQ(rank.any().CheckConsistency(), "");
  }

  CommandOutput command_;
};

TEST_F(HandoffTest, M203_SourceKeepsItsBlocksButNotItsSlotUntilItIsReleased) {
  TestRank rank(Config(WorkerType::kPrefill));
  rank.any().SubmitSource(MakeRequest(1, 0, 10, 1));

  const PassOutput& pass = rank.Pass();

  ASSERT_EQ(pass.outputs.size(), 1U);
  EXPECT_EQ(pass.outputs[0].kind, OutputKind::kLastToken);
  ASSERT_EQ(pass.notices.size(), 1U);
  EXPECT_EQ(pass.notices[0].kind, Kind::kSourceHeld);
  EXPECT_EQ(pass.notices[0].tokens, 10U);
  EXPECT_EQ(rank.load().requests_running, 0U);
  EXPECT_FALSE(rank.any().HasWork());
  ExpectBlocks(rank, 3, 0);

  EXPECT_TRUE(rank.any().ReleaseSource(RequestId{1}, command_));
  ExpectBlocks(rank, 0, 2);
  EXPECT_FALSE(rank.any().ReleaseSource(RequestId{1}, command_));
}

TEST_F(HandoffTest, CancelFreesASourceInEveryState) {
  TestRank rank(Config(WorkerType::kPrefill));
  rank.any().SubmitSource(MakeRequest(1, 0, 10, 1));
  EXPECT_FALSE(rank.any().ReleaseSource(RequestId{1}, command_)) << "it has not even begun";
  EXPECT_TRUE(rank.Cancel(RequestId{1}));
  ExpectBlocks(rank, 0, 0);
  rank.any().SubmitSource(MakeRequest(2, 0, 10, 1));
  rank.Pass();
  EXPECT_TRUE(rank.Cancel(RequestId{2}));
  ExpectBlocks(rank, 0, 2);
}

TEST_F(HandoffTest,
       M197_M198_DestinationGetsRoomForWhatItHasNotCachedAndTellsNobodyBeforeThePromptArrives) {
  TestRank rank(Config(WorkerType::kDecode));
  rank.any().Submit(MakeRequest(1, 0, 8, 1));  // leaves two cached blocks
  rank.Pass();

  ASSERT_TRUE(rank.any().ReserveDestination(MakeRequest(2, 0, 14, 3), false, command_).has_value());

  ASSERT_EQ(command_.notices.size(), 1U);
  EXPECT_EQ(command_.notices[0].kind, Kind::kDestinationReserved);
  EXPECT_EQ(command_.notices[0].tokens, 8U) << "one full and one partial block of four tokens";
  EXPECT_TRUE(command_.events.empty());
  EXPECT_EQ(rank.load().requests_waiting, 1U);
  EXPECT_FALSE(rank.any().HasWork());
  ExpectBlocks(rank, 4, 0);

  command_.Clear();
  EXPECT_TRUE(rank.any().ActivateDestination(RequestId{2}, command_));
  ASSERT_EQ(command_.events.size(), 1U);
  EXPECT_EQ(command_.events[0].blocks.size(), 1U);
  EXPECT_TRUE(command_.events[0].parent.has_value());
  EXPECT_FALSE(rank.any().ActivateDestination(RequestId{2}, command_)) << "once";

  std::size_t tokens = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const PassOutput& output = rank.Pass();
    EXPECT_EQ(output.prefill.count(), 0);
    tokens += output.outputs.size();
    EXPECT_EQ(rank.any().CheckConsistency(), "");
  }
  EXPECT_EQ(tokens, 3U);
  EXPECT_EQ(rank.any().blocks().used, 0U);
}

TEST_F(HandoffTest, M197_BlocksThatAppearedMeanwhileAreSharedWhenThePromptArrives) {
  TestRank rank(Config(WorkerType::kAggregated));
  ASSERT_TRUE(rank.any().ReserveDestination(MakeRequest(1, 0, 12, 2), false, command_).has_value());
  rank.any().Submit(MakeRequest(2, 0, 8, 8));  // computes the first two blocks itself
  rank.Pass();
  const std::uint64_t used = rank.any().blocks().used;
  command_.Clear();

  EXPECT_TRUE(rank.any().ActivateDestination(RequestId{1}, command_));

  EXPECT_EQ(rank.any().blocks().used, used - 2);
  ASSERT_EQ(command_.events.size(), 1U);
  EXPECT_EQ(command_.events[0].blocks.size(), 1U) << "only the third is new";
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(HandoffTest, M201_NoNewRequestOvertakesADestinationThatWaitsForRoom) {
  TestRank rank(Config(WorkerType::kAggregated));
  rank.any().Submit(MakeRequest(1, 0, 40, 12));  // 10 of 16 blocks
  rank.Pass();
  ASSERT_TRUE(
      rank.any().ReserveDestination(MakeRequest(2, 1000, 32, 2), false, command_).has_value());
  EXPECT_TRUE(command_.notices.empty());
  rank.any().Submit(MakeRequest(3, 2000, 4, 1));

  int passes = 0;
  while (command_.notices.empty() && passes < 20) {
    const PassOutput& output = rank.Pass();
    for (const engine::Admission& admission : output.admissions) {
      EXPECT_NE(admission.id, RequestId{3});
    }
    rank.any().RetryDestination(command_);
    ++passes;
  }
  ASSERT_EQ(command_.notices.size(), 1U) << "room came when the first request ended";
  EXPECT_EQ(command_.notices[0].id, RequestId{2});
  EXPECT_EQ(rank.Pass().admissions.size(), 1U) << "now the other one may start";
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(HandoffTest, DestinationsAreReservedOnlyWhenNoPassRuns) {
  TestRank rank(Config(WorkerType::kDecode));
  ASSERT_TRUE(rank.any().ReserveDestination(MakeRequest(1, 0, 8, 2), true, command_).has_value());
  EXPECT_TRUE(command_.notices.empty());
  rank.any().RetryDestination(command_);
  EXPECT_EQ(command_.notices.size(), 1U);
}

TEST_F(HandoffTest, CancelGivesBackAReservationInEveryState) {
  SchedulerConfig config = Config(WorkerType::kDecode);
  config.running_max = 1;
  TestRank rank(config);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(
        rank.any()
            .ReserveDestination(
                MakeRequest(id, static_cast<std::uint32_t>(id) * 1000, 8, 9), false, command_)
            .has_value());
  }
  EXPECT_TRUE(rank.any().ActivateDestination(RequestId{1}, command_));
  rank.Pass();
  EXPECT_EQ(rank.load().requests_running, 1U);
  EXPECT_TRUE(rank.any().CancelDestination(RequestId{1}, command_)) << "running";
  EXPECT_TRUE(rank.any().CancelDestination(RequestId{2}, command_));
  EXPECT_TRUE(rank.any().CancelDestination(RequestId{3}, command_));
  EXPECT_FALSE(rank.any().CancelDestination(RequestId{3}, command_));
  rank.any().Submit(MakeRequest(4, 9000, 4, 1));
  EXPECT_FALSE(rank.any().CancelDestination(RequestId{4}, command_)) << "no destination";
  EXPECT_EQ(rank.any().blocks().used, 0U);
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_F(HandoffTest, RefusesWhatCanNeverBe) {
  TestRank rank(Config(WorkerType::kDecode));
  const Status beyond = rank.any().ReserveDestination(MakeRequest(1, 0, 65, 2), false, command_);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().message, "destination prompt exceeds the KV pool capacity");
  SchedulerConfig config = Config(WorkerType::kDecode);
  config.engine_type = EngineType::kTrtllm;
  config.semantics = SemanticsOf(SemanticsRelease::k13, config.engine_type);
  TestRank trtllm(config);
  const Status none = trtllm.any().ReserveDestination(MakeRequest(1, 0, 8, 2), false, command_);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "destination reservation is not supported for TRT-LLM");
}

}  // namespace
}  // namespace understudy::mocker
