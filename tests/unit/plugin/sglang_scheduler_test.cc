#include "plugin/mocker/sglang/sglang_scheduler.h"

#include "tests/unit/plugin/rank.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;
using Kind = engine::KvEvent::Kind;

constexpr int kPassesMax = 1000;

class SglangSchedulerTest : public ::testing::Test {
 protected:
  /// 16 pages of 4 tokens, 8 running requests.
  static SchedulerConfig Config() {
    SchedulerConfig config = SmallRank();
    config.engine_type = EngineType::kSglang;
    return config;
  }

  /// Runs until nothing is left or nothing moves; the outputs of all passes.
  static std::vector<engine::Output> RunOut(TestRank& rank) {
    std::vector<engine::Output> outputs;
    for (int pass = 0; rank.any().HasWork(); ++pass) {
      const PassOutput& output = rank.Pass();
      outputs.insert(outputs.end(), output.outputs.begin(), output.outputs.end());
      EXPECT_EQ(rank.any().CheckConsistency(), "");
      EXPECT_LT(pass, kPassesMax);
      if (!output.progressed || pass >= kPassesMax) {
        break;
      }
    }
    return outputs;
  }

  static std::size_t CountOf(const std::vector<engine::Output>& outputs, OutputKind kind) {
    return static_cast<std::size_t>(
        std::count_if(outputs.begin(), outputs.end(), [&](const engine::Output& out) {
          return out.kind == kind;
        }));
  }

  static std::vector<std::uint64_t> IdsOf(const std::vector<engine::Admission>& admissions) {
    std::vector<std::uint64_t> ids;
    for (const engine::Admission& admission : admissions) {
      ids.push_back(Value(admission.id));
    }
    return ids;
  }

  /// Used, cached, free pages.
  static void ExpectBlocks(TestRank& rank,
                           std::uint64_t used,
                           std::uint64_t cached,
                           std::uint64_t free) {
    const BlockCounts blocks = rank.any().blocks();
    EXPECT_EQ(blocks.used, used);
    EXPECT_EQ(blocks.cached, cached);
    EXPECT_EQ(blocks.free, free);
    EXPECT_EQ(blocks.total, used + cached + free);
    EXPECT_EQ(rank.any().CheckConsistency(), "");
  }
};

TEST_F(SglangSchedulerTest, EventsAreForTheEndOfThePass) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 8, 2));

  const PassOutput& pass = rank.Pass();

  EXPECT_TRUE(pass.events_at_end);
  ASSERT_EQ(pass.events.size(), 1U);
  EXPECT_EQ(pass.events[0].blocks.size(), 2U);
}

TEST_F(SglangSchedulerTest, BooksAPromptItsOutputAndTheCacheInPages) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 10, 3));

  rank.Pass();
  ExpectBlocks(rank, 3, 0, 13);
  EXPECT_EQ(rank.load().blocks_active, 3U);
  RunOut(rank);

  ExpectBlocks(rank, 0, 3, 13);
  EXPECT_EQ(rank.load().blocks_active, 3U) << "the original counts cached pages as active";
}

TEST_F(SglangSchedulerTest, ACachedPrefixCostsNoTime) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 8, 1));
  const Nanoseconds cold = rank.Pass().prefill;
  rank.any().Submit(MakeRequest(2, 0, 8, 1));

  const PassOutput& pass = rank.Pass();

  EXPECT_GT(cold.count(), 0);
  EXPECT_EQ(pass.prefill.count(), 0);
  ASSERT_EQ(pass.admissions.size(), 1U);
  EXPECT_EQ(pass.admissions[0].cached_tokens, 8U);
  EXPECT_EQ(rank.load().cache_hit_tokens, 8U);
  EXPECT_EQ(rank.load().cache_total_tokens, 16U);
}

TEST_F(SglangSchedulerTest, WithoutPrefixCachingOnlyTheEventsAreMissing) {
  SchedulerConfig config = Config();
  config.prefix_caching = false;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 8, 1));
  EXPECT_TRUE(rank.Pass().events.empty());
  rank.any().Submit(MakeRequest(2, 0, 8, 1));

  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 8U) << "as in the original";
  EXPECT_EQ(rank.any().event_count(), 0U);
}

TEST_F(SglangSchedulerTest, ALongPromptIsComputedInChunksBeforeThoseBehindIt) {
  SchedulerConfig config = Config();
  config.sglang.chunked_prefill_size = 8;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 20, 1));
  rank.any().Submit(MakeRequest(2, 100, 4, 1));

  EXPECT_EQ(IdsOf(rank.Pass().admissions), std::vector<std::uint64_t>{1});
  EXPECT_EQ(rank.load().requests_waiting, 2U);
  EXPECT_EQ(IdsOf(rank.Pass().admissions), std::vector<std::uint64_t>{1});
  EXPECT_EQ(IdsOf(rank.Pass().admissions), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(SglangSchedulerTest, PromptsOfOnePassShareNothingUntilTheyAreOver) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 8, 2));
  rank.any().Submit(MakeRequest(2, 0, 8, 3));

  const PassOutput& pass = rank.Pass();
  EXPECT_EQ(pass.events.size(), 1U) << "the second copy is news to nobody";
  ExpectBlocks(rank, 5, 0, 11);  // 2 x (8 + 1) tokens
  RunOut(rank);

  ExpectBlocks(rank, 0, 2, 14);
}

TEST_F(SglangSchedulerTest, PlannedTokensNameThePagesOfTheOutput) {
  TestRank rank(Config());
  engine::Request first = MakeRequest(1, 0, 8, 4);
  first.planned_tokens = {8, 9, 10, 11};
  rank.any().Submit(first);
  const std::vector<engine::Output> outputs = RunOut(rank);
  EXPECT_EQ(outputs[3].token, 11U);
  rank.any().Submit(MakeRequest(2, 0, 12, 1));

  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 12U);
}

TEST_F(SglangSchedulerTest, DrawnTokensAreSeenAsOthersThanTheCacheIsTold) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 8, 4));
  engine::Request follow_up = MakeRequest(2, 0, 8, 1);
  for (const engine::Output& out : RunOut(rank)) {
    EXPECT_GE(out.token, 1000U);
    EXPECT_LT(out.token, 2000U);
    follow_up.prompt.push_back(out.token);
  }
  rank.any().Submit(follow_up);

  EXPECT_EQ(rank.Pass().admissions[0].cached_tokens, 8U);
}

TEST_F(SglangSchedulerTest, APromptThatCanNeverFitIsRejectedAndHoldsNobodyUp) {
  SchedulerConfig config = Config();
  config.blocks_total = 4;
  for (const bool strict : {false, true}) {
    config.strict_reference = strict;
    TestRank rank(config);
    rank.any().Submit(MakeRequest(1, 0, 4, 11));
    EXPECT_EQ(CountOf(RunOut(rank), OutputKind::kLastToken), 1U);
    rank.any().Submit(MakeRequest(2, 0, 4, 12));  // 4 + 12 is not below 16
    rank.any().Submit(MakeRequest(3, 100, 4, 1));

    const PassOutput& pass = rank.Pass();

    if (strict) {
      EXPECT_FALSE(pass.progressed);
      EXPECT_EQ(rank.load().requests_waiting, 2U) << "and so for ever";
    } else {
      ASSERT_EQ(pass.outputs.size(), 2U);
      EXPECT_EQ(pass.outputs[0].kind, OutputKind::kLastToken);
      EXPECT_EQ(pass.outputs[1].kind, OutputKind::kRejected);
      EXPECT_EQ(pass.outputs[1].id, RequestId{2});
      EXPECT_EQ(rank.any().unadmitted(), 0U);
    }
  }
}

TEST_F(SglangSchedulerTest, APromptBeyondTheInputLimitIsRejected) {
  SchedulerConfig config = Config();
  config.sglang.max_prefill_tokens = 8;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 9, 1));
  rank.any().Submit(MakeRequest(2, 0, 8, 1));

  const std::vector<engine::Output> outputs = RunOut(rank);

  EXPECT_EQ(CountOf(outputs, OutputKind::kRejected), 1U);
  EXPECT_EQ(CountOf(outputs, OutputKind::kLastToken), 1U);
}

TEST_F(SglangSchedulerTest, AnEmptyPromptRuns) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 0, 0, 6));

  const std::vector<engine::Output> outputs = RunOut(rank);

  EXPECT_EQ(outputs.size(), 6U);
  ExpectBlocks(rank, 0, 1, 15);
}

TEST_F(SglangSchedulerTest, TheRequestWithTheFewestTokensIsRetractedAndKeepsThem) {
  SchedulerConfig config = Config();
  config.blocks_total = 8;
  config.sglang.clip_max_new_tokens = 1;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 12, 12));
  rank.Pass();
  rank.any().Submit(MakeRequest(2, 100, 8, 12));

  const std::vector<engine::Output> outputs = RunOut(rank);

  EXPECT_EQ(CountOf(outputs, OutputKind::kLastToken), 2U);
  EXPECT_EQ(outputs.size(), 11U + 12U);
  EXPECT_EQ(outputs.back().id, RequestId{2}) << "it waited for the first to end";
  EXPECT_EQ(rank.load().preemptions_total, 0U) << "the original does not count them";
}

TEST_F(SglangSchedulerTest, ARequestThatOutgrowsThePoolAloneFails) {
  SchedulerConfig config = Config();
  config.blocks_total = 4;
  config.sglang.clip_max_new_tokens = 1;
  for (const bool strict : {false, true}) {
    config.strict_reference = strict;
    TestRank rank(config);
    rank.any().Submit(MakeRequest(1, 0, 8, 40));

    const std::vector<engine::Output> outputs = RunOut(rank);

    EXPECT_EQ(CountOf(outputs, OutputKind::kToken), 8U) << "until all 16 tokens are taken";
    EXPECT_EQ(CountOf(outputs, OutputKind::kFailed), strict ? 0U : 1U);
    EXPECT_EQ(rank.load().requests_running, strict ? 1U : 0U);
    if (!strict) {
      ExpectBlocks(rank, 0, 4, 0);
    }
  }
}

TEST_F(SglangSchedulerTest, FailuresCarryAText) {
  SchedulerConfig config = Config();
  config.blocks_total = 4;
  config.sglang.clip_max_new_tokens = 1;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 12, 40));
  for (int pass = 0; pass < 4; ++pass) {
    EXPECT_TRUE(rank.Pass().failures.empty());
  }

  const PassOutput& pass = rank.Pass();

  ASSERT_EQ(pass.failures.size(), 1U);
  EXPECT_EQ(pass.failures[0].id, RequestId{1});
  EXPECT_FALSE(pass.failures[0].message.empty());
}

TEST_F(SglangSchedulerTest, ARunningRequestTakesThePagesOfHalfComputedPromptsBeforeItFails) {
  SchedulerConfig config = Config();
  config.blocks_total = 8;
  config.sglang.chunked_prefill_size = 12;
  config.sglang.clip_max_new_tokens = 1;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 4, 22));
  rank.Pass();
  rank.any().Submit(MakeRequest(2, 100, 24, 2));  // one chunk fits beside the first, not both

  const std::vector<engine::Output> outputs = RunOut(rank);

  EXPECT_EQ(CountOf(outputs, OutputKind::kFailed), 0U);
  EXPECT_EQ(CountOf(outputs, OutputKind::kLastToken), 2U);
  EXPECT_EQ(outputs.size(), 21U + 2U);
}

TEST_F(SglangSchedulerTest, ARetractedRequestThatAdmissionWouldNotTakeAgainRunsAlone) {
  SchedulerConfig config = Config();
  config.worker_type = WorkerType::kDecode;
  config.blocks_total = 12;
  for (const bool strict : {false, true}) {
    config.strict_reference = strict;
    TestRank rank(config);
    rank.any().Submit(MakeRequest(1, 0, 3, 3));
    rank.Pass();
    CommandOutput command;
    ASSERT_TRUE(rank.any().ReserveDestination(MakeRequest(2, 100, 41, 7), false, command));
    ASSERT_TRUE(rank.any().ActivateDestination(RequestId{2}, command));

    const std::vector<engine::Output> outputs = RunOut(rank);

    // 41 + 7 tokens fill the pool, but 44 + 7 are too many for admission.
    EXPECT_EQ(outputs.size(), strict ? 2U : 2U + 7U);
    EXPECT_EQ(rank.any().HasWork(), strict);
  }
}

TEST_F(SglangSchedulerTest, CancelFreesSlotAndPagesAtOnce) {
  SchedulerConfig config = Config();
  config.running_max = 1;
  config.sglang.chunked_prefill_size = 8;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 20, 30));
  rank.Pass();
  EXPECT_TRUE(rank.Cancel(RequestId{1})) << "after its first chunk";
  ExpectBlocks(rank, 0, 2, 14);
  rank.any().Submit(MakeRequest(2, 100, 5, 30));
  rank.Pass();
  rank.any().Submit(MakeRequest(3, 200, 5, 1));
  rank.Pass();
  EXPECT_EQ(rank.load().requests_waiting, 1U);

  EXPECT_TRUE(rank.Cancel(RequestId{2})) << "while it runs";
  EXPECT_FALSE(rank.Cancel(RequestId{2}));
  EXPECT_EQ(rank.load().requests_running, 0U);
  ExpectBlocks(rank, 0, 3, 13);
  EXPECT_EQ(rank.Pass().outputs.at(0).id, RequestId{3}) << "it has the slot";
  rank.any().Submit(MakeRequest(4, 0, 5, 1));
  EXPECT_TRUE(rank.Cancel(RequestId{4})) << "before it began";
  EXPECT_FALSE(rank.any().HasWork());
  EXPECT_EQ(rank.any().unadmitted(), 0U);
}

TEST_F(SglangSchedulerTest, StrictReferenceComputesACancelledRequestToItsEnd) {
  SchedulerConfig config = Config();
  config.strict_reference = true;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 4, 3));
  rank.Pass();
  EXPECT_TRUE(rank.Cancel(RequestId{1}));

  EXPECT_TRUE(rank.Pass().outputs.empty());
  EXPECT_EQ(rank.load().requests_running, 1U);
  EXPECT_TRUE(rank.Pass().outputs.empty());
  EXPECT_EQ(rank.load().requests_running, 0U);
}

TEST_F(SglangSchedulerTest, WorkersOfOneKindLeaveOutTheOthersTime) {
  SchedulerConfig config = Config();
  config.worker_type = WorkerType::kDecode;
  TestRank decode(config);
  decode.any().Submit(MakeRequest(1, 0, 8, 1));
  EXPECT_EQ(decode.Pass().prefill.count(), 0);
  config.worker_type = WorkerType::kPrefill;
  TestRank prefill(config);
  prefill.any().Submit(MakeRequest(1, 0, 8, 1));
  EXPECT_GT(prefill.Pass().decode.count(), 0) << "this core decodes the first token everywhere";
}

TEST_F(SglangSchedulerTest, DraftTokensComeInBursts) {
  SchedulerConfig config = Config();
  config.speculative = SpeculativeOptions{.accept_rates = {1.0, 1.0, 1.0}};
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 8, 10));

  EXPECT_EQ(rank.Pass().outputs.size(), 4U);
  ExpectBlocks(rank, 3, 0, 13);
  EXPECT_EQ(rank.Pass().outputs.size(), 4U);
  EXPECT_EQ(rank.Pass().outputs.size(), 2U);
  ExpectBlocks(rank, 0, 4, 12);
  EXPECT_EQ(rank.load().token_gaps_total, 9U);

  config.worker_type = WorkerType::kPrefill;
  TestRank prefill(config);
  prefill.any().Submit(MakeRequest(1, 0, 8, 10));
  EXPECT_EQ(prefill.Pass().outputs.size(), 1U);
}

TEST_F(SglangSchedulerTest, TheLastRunningRequestUsesUpThePoolInSmallerBursts) {
  SchedulerConfig config = Config();
  config.blocks_total = 4;
  config.sglang.clip_max_new_tokens = 1;
  config.speculative = SpeculativeOptions{.accept_rates = {1.0, 1.0}};
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 8, 40));

  const std::vector<engine::Output> outputs = RunOut(rank);

  EXPECT_EQ(CountOf(outputs, OutputKind::kToken), 8U);
  EXPECT_EQ(CountOf(outputs, OutputKind::kFailed), 1U);
}

class SglangPolicyTest : public SglangSchedulerTest {
 protected:
  static SchedulerConfig Config(SglangPolicy policy) {
    SchedulerConfig config = SglangSchedulerTest::Config();
    config.sglang.schedule_policy = policy;
    config.block_size = 16;
    config.running_max = 1;
    return config;
  }

  /// Ids in the order of admission.
  static std::vector<std::uint64_t> Order(TestRank& rank) {
    std::vector<std::uint64_t> order;
    while (rank.any().HasWork()) {
      for (const std::uint64_t id : IdsOf(rank.Pass().admissions)) {
        order.push_back(id);
      }
    }
    return order;
  }
};

TEST_F(SglangPolicyTest, LongestCachedPrefixGoesFirst) {
  for (const SglangPolicy policy : {SglangPolicy::kFifo, SglangPolicy::kLpm}) {
    TestRank rank(Config(policy));
    rank.any().Submit(MakeRequest(1, 0, 48, 1));
    rank.Pass();
    rank.any().Submit(MakeRequest(2, 1000, 48, 1));
    rank.any().Submit(MakeRequest(3, 0, 16, 1));
    rank.any().Submit(MakeRequest(4, 0, 48, 1));

    EXPECT_EQ(Order(rank),
              (policy == SglangPolicy::kLpm ? std::vector<std::uint64_t>{4, 3, 2}
                                            : std::vector<std::uint64_t>{2, 3, 4}));
  }
}

TEST_F(SglangPolicyTest, APromptThatBeginsLikeOneBeforeItWaitsForThatOne) {
  SchedulerConfig config = Config(SglangPolicy::kLpm);
  config.running_max = 2;
  TestRank rank(config);
  rank.any().Submit(MakeRequest(1, 0, 40, 1));
  rank.any().Submit(MakeRequest(2, 0, 40, 1));
  rank.any().Submit(MakeRequest(3, 1000, 40, 1));

  EXPECT_EQ(IdsOf(rank.Pass().admissions), (std::vector<std::uint64_t>{1, 3}));
  const PassOutput& pass = rank.Pass();
  ASSERT_EQ(pass.admissions.size(), 1U);
  EXPECT_EQ(pass.admissions[0].cached_tokens, 32U);
}

TEST_F(SglangPolicyTest, ALongQueueIsLeftAsItIs) {
  TestRank rank(Config(SglangPolicy::kLpm));
  rank.any().Submit(MakeRequest(1, 0, 64, 1));
  rank.Pass();
  for (std::uint64_t id = 2; id < 130; ++id) {
    rank.any().Submit(MakeRequest(id, 1000, 4, 1));
  }
  rank.any().Submit(MakeRequest(130, 0, 64, 1));

  EXPECT_EQ(IdsOf(rank.Pass().admissions), std::vector<std::uint64_t>{2}) << "129 wait";
  EXPECT_EQ(IdsOf(rank.Pass().admissions), std::vector<std::uint64_t>{130}) << "128 wait";
}

}  // namespace
}  // namespace understudy::mocker
