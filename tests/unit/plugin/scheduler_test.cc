#include "plugin/mocker/scheduler/scheduler.h"

#include "tests/unit/plugin/rank.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;

TEST(Scheduler, AnIdleRankIsSmall) {
  EXPECT_LE(sizeof(Scheduler), 1024U);
  TestRank rank(SmallRank());
  EXPECT_FALSE(rank.scheduler().HasWork());
  EXPECT_FALSE(rank.Pass().progressed);
}

TEST(Scheduler, GivesOneTokenAPassAndEndsWithTheLast) {
  TestRank rank(SmallRank());
  rank.scheduler().Submit(MakeRequest(1, 0, 10, 3));
  for (int i = 0; i < 3; ++i) {
    const PassOutput& pass = rank.Pass();
    ASSERT_EQ(pass.outputs.size(), 1U);
    EXPECT_EQ(pass.outputs[0].kind, i == 2 ? OutputKind::kLastToken : OutputKind::kToken);
    EXPECT_EQ(pass.admissions.size(), i == 0 ? 1U : 0U);
  }
  EXPECT_FALSE(rank.scheduler().HasWork());
  EXPECT_EQ(rank.load().passes_total, 3U);
}

TEST(Scheduler, ServesAnEmptyPrompt) {
  TestRank rank(SmallRank());
  rank.scheduler().Submit(MakeRequest(1, 0, 0, 6));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(rank.Pass().outputs.size(), 1U);
  }
  EXPECT_FALSE(rank.scheduler().HasWork());
  EXPECT_EQ(rank.load().blocks_active, 0U);
}

TEST(Scheduler, ReportsThePrefixFoundInTheCache) {
  TestRank rank(SmallRank());
  rank.scheduler().Submit(MakeRequest(1, 0, 10, 1));
  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 0U);
  rank.scheduler().Submit(MakeRequest(2, 0, 10, 1));
  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 8U);
  rank.scheduler().Submit(MakeRequest(3, 0, 8, 1));
  const PassOutput& whole = rank.Pass();
  EXPECT_EQ(whole.admissions[0].cached_tokens, 8U);
  EXPECT_EQ(whole.prefill, Nanoseconds(0)) << "nothing is left to compute";
}

TEST(Scheduler, UnlimitedBudgetAndSequencesAdmitEverybodyAtOnce) {
  SchedulerConfig config = SmallRank();
  config.budget = 0;
  config.running_max = 0;
  config.blocks_total = 1000;
  TestRank rank(config);
  for (std::uint64_t id = 0; id < 40; ++id) {
    rank.scheduler().Submit(MakeRequest(id, static_cast<std::uint32_t>(id * 100), 20, 2));
  }
  EXPECT_EQ(rank.Pass().outputs.size(), 40U);
}

TEST(Scheduler, CancelFreesSlotAndBlocksAtOnce) {
  SchedulerConfig config = SmallRank();
  config.running_max = 1;
  TestRank rank(config);
  rank.scheduler().Submit(MakeRequest(1, 0, 10, 100));
  rank.scheduler().Submit(MakeRequest(2, 50, 10, 1));
  rank.Pass();
  EXPECT_EQ(rank.load().blocks_active, 3U);
  EXPECT_TRUE(rank.Cancel(RequestId{1}));
  EXPECT_EQ(rank.load().blocks_active, 0U);
  EXPECT_EQ(rank.load().requests_running, 0U);
  EXPECT_FALSE(rank.Cancel(RequestId{1})) << "gone";
  const PassOutput& pass = rank.Pass();
  ASSERT_EQ(pass.outputs.size(), 1U);
  EXPECT_EQ(pass.outputs[0].id, RequestId{2});
}

// Dynamo 1.3.0 computes a cancelled request to its end (measured: 400 passes after the client
// left).
TEST(Scheduler, StrictReferenceOnlyDropsTheOutputOfACancelledRequest) {
  SchedulerConfig config = SmallRank();
  config.strict_reference = true;
  TestRank rank(config);
  rank.scheduler().Submit(MakeRequest(1, 0, 10, 5));
  rank.Pass();
  EXPECT_TRUE(rank.Cancel(RequestId{1}));
  for (int pass = 0; pass < 4; ++pass) {
    EXPECT_TRUE(rank.scheduler().HasWork());
    const PassOutput& output = rank.Pass();
    EXPECT_TRUE(output.outputs.empty());
    EXPECT_GT(output.decode, Nanoseconds(0));
  }
  EXPECT_FALSE(rank.scheduler().HasWork());
}

TEST(Scheduler, CancelOfAWaitingRequestMakesRoomForOneMore) {
  SchedulerConfig config = SmallRank();
  config.running_max = 1;
  TestRank rank(config);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rank.scheduler().Submit(MakeRequest(id, 0, 4, 5));
  }
  rank.Pass();
  EXPECT_EQ(rank.scheduler().unadmitted(), 2U);
  EXPECT_TRUE(rank.Cancel(RequestId{2}));
  EXPECT_EQ(rank.scheduler().unadmitted(), 1U);
  EXPECT_EQ(rank.scheduler().CheckConsistency(), "");
}

TEST(Scheduler, ManySubmitsAndCancelsWithoutAPassReuseTheirEntries) {
  TestRank rank(SmallRank());
  for (std::uint64_t id = 0; id < 100000; ++id) {
    rank.scheduler().Submit(MakeRequest(id, 0, 4, 5));
    EXPECT_TRUE(rank.Cancel(RequestId{id}));
  }
  EXPECT_FALSE(rank.scheduler().HasWork());
  EXPECT_EQ(rank.scheduler().CheckConsistency(), "");
}

// Dynamo 1.3.0 preempts and recomputes such a request for ever (measured: 8 in, 8 out, 3 blocks of
// 4 never returns). Ours ends it with the text of the early completion, and the next one is served.
TEST(Scheduler, EndsARequestThatOutgrowsThePoolAlone) {
  SchedulerConfig config = SmallRank();
  config.blocks_total = 3;
  TestRank rank(config);
  rank.scheduler().Submit(MakeRequest(1, 0, 8, 8));
  rank.scheduler().Submit(MakeRequest(2, 100, 4, 1));
  std::size_t tokens = 0;
  OutputKind end = OutputKind::kToken;
  std::string text;
  for (int pass = 0; pass < 20 && rank.scheduler().HasWork(); ++pass) {
    const PassOutput& output = rank.Pass();
    for (const engine::Output& out : output.outputs) {
      if (out.id == RequestId{1}) {
        end = out.kind;
        tokens += out.kind == OutputKind::kToken ? 1U : 0U;
      }
    }
    if (!output.failures.empty()) {
      text = output.failures[0].message;
    }
  }
  EXPECT_FALSE(rank.scheduler().HasWork());
  EXPECT_EQ(tokens, 4U) << "12 tokens fit";
  EXPECT_EQ(end, OutputKind::kFailed);
  EXPECT_NE(text.find("Completion signal received before max tokens reached"), std::string::npos);
  EXPECT_EQ(rank.load().blocks_active, 0U);
}

TEST(Scheduler, StrictReferenceKeepsRecomputingARequestThatOutgrowsThePool) {
  SchedulerConfig config = SmallRank();
  config.blocks_total = 3;
  config.strict_reference = true;
  TestRank rank(config);
  rank.scheduler().Submit(MakeRequest(1, 0, 8, 8));
  for (int pass = 0; pass < 100; ++pass) {
    rank.Pass();
  }
  EXPECT_TRUE(rank.scheduler().HasWork());
  EXPECT_GT(rank.load().preemptions_total, 40U);
}

// Without chunked prefill a prompt above the budget never starts in Dynamo 1.3.0, and everybody
// waits behind it.
TEST(Scheduler, EndsAPromptThatFitsIntoNoPass) {
  SchedulerConfig config = SmallRank();
  config.chunked_prefill = false;
  config.budget = 8;
  for (const bool strict : {false, true}) {
    config.strict_reference = strict;
    TestRank rank(config);
    rank.scheduler().Submit(MakeRequest(1, 0, 20, 2));
    rank.scheduler().Submit(MakeRequest(2, 100, 4, 1));
    const PassOutput& first = rank.Pass();
    EXPECT_EQ(first.progressed, !strict);
    ASSERT_EQ(first.outputs.size(), strict ? 0U : 1U);
    const PassOutput& second = rank.Pass();
    ASSERT_EQ(second.outputs.size(), strict ? 0U : 1U);
    if (!strict) {
      EXPECT_EQ(second.outputs[0].id, RequestId{2});
    }
  }
}

TEST(Scheduler, RejectsOnlyPromptsThatExceedTheWholePool) {
  SchedulerConfig config = SmallRank();
  config.blocks_total = 5;
  TestRank rank(config);
  rank.scheduler().Submit(MakeRequest(1, 0, 21, 1));
  rank.scheduler().Submit(MakeRequest(2, 100, 20, 1));
  const PassOutput& pass = rank.Pass();
  // The full pool has no block for the token that the aligned prompt's output would open: it fails,
  // it is not rejected.
  ASSERT_EQ(pass.outputs.size(), 2U);
  EXPECT_EQ(pass.outputs[0].id, RequestId{1});
  EXPECT_EQ(pass.outputs[0].kind, OutputKind::kRejected);
  EXPECT_EQ(pass.outputs[1].id, RequestId{2});
  EXPECT_EQ(pass.outputs[1].kind, OutputKind::kFailed);
}

TEST(Scheduler, PlannedTokensAreEmittedAndNameTheGeneratedBlocks) {
  TestRank rank(SmallRank());
  engine::Request request = MakeRequest(1, 0, 8, 5);
  request.planned_tokens = {8, 9, 10, 11, 12};
  rank.scheduler().Submit(std::move(request));
  std::vector<std::uint32_t> tokens;
  while (rank.scheduler().HasWork()) {
    tokens.push_back(rank.Pass().outputs.at(0).token);
  }
  EXPECT_EQ(tokens, (std::vector<std::uint32_t>{8, 9, 10, 11, 12}));
  rank.scheduler().Submit(MakeRequest(2, 0, 14, 1));
  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 12U)
      << "the follow-up prompt finds the generated block";
}

TEST(Scheduler, DrawnTokensDoNotNameTheGeneratedBlocksToClients) {
  TestRank rank(SmallRank());
  rank.scheduler().Submit(MakeRequest(1, 0, 8, 5));
  std::vector<std::uint32_t> conversation = MakeRequest(1, 0, 8, 5).prompt;
  while (rank.scheduler().HasWork()) {
    conversation.push_back(rank.Pass().outputs.at(0).token);
  }
  engine::Request follow_up = MakeRequest(2, 0, 0, 1);
  follow_up.prompt = conversation;
  rank.scheduler().Submit(std::move(follow_up));
  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 8U);
}

TEST(Scheduler, DrawsDependOnSeedRankAndArrivalOnly) {
  const auto tokens = [](std::uint64_t seed, std::uint32_t rank_index, bool with_another) {
    SchedulerConfig config = SmallRank();
    config.seed = seed;
    TestRank rank(config, rank_index);
    rank.scheduler().Submit(MakeRequest(77, 0, 8, 6));
    if (with_another) {
      rank.scheduler().Submit(MakeRequest(78, 50, 8, 6));
    }
    std::vector<std::uint32_t> drawn;
    while (rank.scheduler().HasWork()) {
      for (const engine::Output& output : rank.Pass().outputs) {
        if (output.id == RequestId{77}) {
          drawn.push_back(output.token);
        }
      }
    }
    return drawn;
  };
  const auto base = tokens(1, 0, false);
  EXPECT_EQ(tokens(1, 0, true), base);
  EXPECT_NE(tokens(2, 0, false), base);
  EXPECT_NE(tokens(1, 1, false), base);
}

}  // namespace
}  // namespace understudy::mocker
