// Live timing with a clock that moves by hand.
#include "plugin/mocker/live/rank_host.h"

#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "tests/fakes/manual_clock.h"
#include "tests/unit/plugin/rank.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Every prefill takes 10 ms and every decode step 4 ms.
class FixedModel final : public PerfModel {
 public:
  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override {
    return batch.requests > 0 ? 10.0 : 0.0;
  }
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override {
    return batch.requests > 0 ? 4.0 : 0.0;
  }
};

class KeepingSink final : public engine::EngineSink {
 public:
  void OnKvEvents(std::vector<engine::KvEvent> events) override {
    calls += 'e';
    for (auto& event : events) {
      kv_events.push_back(std::move(event));
    }
  }
  void OnPassBatch(engine::PassBatch batch) override {
    calls += 'b';
    batches.push_back(std::move(batch));
  }
  [[nodiscard]] std::size_t outputs() const {
    std::size_t n = 0;
    for (const engine::PassBatch& batch : batches) {
      n += batch.outputs.size();
    }
    return n;
  }

  std::string calls;  ///< e: events, b: batch
  std::vector<engine::KvEvent> kv_events;
  std::vector<engine::PassBatch> batches;
};

class RankHostTest : public ::testing::Test {
 protected:
  static SchedulerConfig Config() {
    SchedulerConfig config = SmallRank();
    config.blocks_total = 1000;
    return config;
  }

  void Make(SchedulerConfig config,
            std::uint32_t ranks = 1,
            Nanoseconds startup = Nanoseconds(0),
            std::uint32_t group = 1) {
    config_ = config;
    config_.policy = &policy_;
    config_.perf_model = &model_;
    bound_ = std::make_unique<WaitingBound>(ranks, 1000);
    host_ =
        std::make_unique<RankHost>(config_, RankHost::Share{0, 1, ranks / group, group}, *bound_);
    host_->Start(sink_, clock_.Now() + startup);
    begin_ = clock_.Now();
  }

  void Submit(std::uint64_t id,
              std::uint32_t outputs,
              std::uint32_t rank = 0,
              std::size_t prompt = 8) {
    ASSERT_TRUE(bound_->Take(RankIndex{rank}));
    host_->Apply(MakeRequest(id, static_cast<std::uint32_t>(id * 100), prompt, outputs, rank));
  }

  /// What an engine thread does until it would wait.
  void Turn() {
    bool more = true;
    while (more) {
      more = host_->RunDue(clock_.Now());
      if (!more || host_->FlushDue(clock_.Now())) {
        host_->Flush();
      }
    }
  }

  /// Waits for the next deadline and arrives `late`.
  void TurnAtDeadline(Nanoseconds late = Nanoseconds(0)) {
    ASSERT_TRUE(host_->NextDeadline().has_value());
    clock_.Set(*host_->NextDeadline() + late);
    Turn();
  }

  [[nodiscard]] Nanoseconds NextIn() const { return *host_->NextDeadline() - begin_; }

  ManualClock clock_;
  VllmPolicy policy_;
  FixedModel model_;
  SchedulerConfig config_;
  KeepingSink sink_;
  std::unique_ptr<WaitingBound> bound_;
  std::unique_ptr<RankHost> host_;
  TimePoint begin_{};
};

TEST_F(RankHostTest, ShowsEventsAtTheStartOfAPassAndTokensAtItsEnd) {
  Make(Config());
  Submit(1, 2);
  Turn();
  EXPECT_EQ(sink_.calls, "e");
  EXPECT_EQ(NextIn(), milliseconds(14));
  clock_.Set(begin_ + milliseconds(14) - Nanoseconds(1));
  Turn();
  EXPECT_EQ(sink_.calls, "e") << "not a nanosecond early";
  TurnAtDeadline();
  EXPECT_EQ(sink_.calls, "eb");
  ASSERT_EQ(sink_.batches[0].outputs.size(), 1U);
  EXPECT_EQ(sink_.batches[0].admissions.size(), 1U);
  EXPECT_EQ(NextIn(), milliseconds(18));
}

TEST_F(RankHostTest, SleepsWithoutADeadlineWhenNobodyWantsAnything) {
  Make(Config());
  Turn();
  EXPECT_FALSE(host_->NextDeadline().has_value());
  Submit(1, 1);
  Turn();
  TurnAtDeadline();
  EXPECT_FALSE(host_->NextDeadline().has_value());
  EXPECT_EQ(sink_.batches.back().outputs.back().kind, engine::OutputKind::kLastToken);
}

TEST_F(RankHostTest, LatenessOfTheThreadDoesNotAddUp) {
  Make(Config());
  Submit(1, 101);
  Turn();
  for (int i = 0; i < 100; ++i) {
    TurnAtDeadline(microseconds(300));
  }
  EXPECT_EQ(NextIn(), milliseconds(14 + 100 * 4));
}

TEST_F(RankHostTest, CatchesUpAfterAPauseWithinTheLimit) {
  Make(Config());
  Submit(1, 100);
  Turn();
  clock_.Set(begin_ + milliseconds(14) + milliseconds(100));
  Turn();
  EXPECT_EQ(sink_.outputs(), 26U) << "the pass that was due and the 25 that fit into 100 ms";
  EXPECT_EQ(NextIn(), milliseconds(14) + milliseconds(100) + milliseconds(4));
}

TEST_F(RankHostTest, StartsAfreshAfterALongerPause) {
  Make(Config());
  Submit(1, 100);
  Turn();
  clock_.Set(begin_ + milliseconds(14) + milliseconds(100) + Nanoseconds(1));
  Turn();
  EXPECT_EQ(sink_.outputs(), 1U);
  EXPECT_EQ(*host_->NextDeadline(), clock_.Now() + milliseconds(4));
}

TEST_F(RankHostTest, ARequestThatComesDuringAPassJoinsTheNext) {
  Make(Config());
  Submit(1, 10);
  Turn();
  clock_.Advance(milliseconds(3));
  Submit(2, 10);
  Turn();
  EXPECT_EQ(NextIn(), milliseconds(14));
  TurnAtDeadline();
  EXPECT_EQ(sink_.outputs(), 1U);
  EXPECT_EQ(NextIn(), milliseconds(28));
  TurnAtDeadline();
  EXPECT_EQ(sink_.batches.back().outputs.size(), 2U);
}

TEST_F(RankHostTest, CancelDuringAPassFreesTheBlocksAtOnce) {
  Make(Config());
  Submit(1, 10);
  Turn();
  clock_.Advance(milliseconds(3));
  host_->Apply(CancelCommand{RequestId{1}, RankIndex{0}});
  Turn();
  ASSERT_EQ(sink_.batches.size(), 1U);
  EXPECT_TRUE(sink_.batches[0].outputs.empty());
  ASSERT_EQ(sink_.batches[0].loads.size(), 1U);
  EXPECT_EQ(sink_.batches[0].loads[0].blocks_active, 0U);
  TurnAtDeadline();
  EXPECT_FALSE(host_->NextDeadline().has_value());
}

TEST_F(RankHostTest, PassesOfSeveralRanksThatEndTogetherGoTogether) {
  Make(Config(), /*ranks=*/3);
  Submit(1, 10, 0);
  Submit(2, 10, 1);
  Submit(3, 10, 2);
  Turn();
  EXPECT_EQ(sink_.calls, "e");
  EXPECT_EQ(sink_.kv_events.size(), 3U);
  TurnAtDeadline();
  ASSERT_EQ(sink_.batches.size(), 1U);
  EXPECT_EQ(sink_.batches[0].outputs.size(), 3U);
  EXPECT_EQ(sink_.batches[0].loads.size(), 3U);
}

TEST_F(RankHostTest, ABatchHoldsOneLoadPerRankTheLatest) {
  SchedulerConfig config = Config();
  config.speedup_ratio = 0.0;
  Make(config, /*ranks=*/2);
  Submit(1, 20, 0);
  Submit(2, 20, 1);
  Turn();
  ASSERT_EQ(sink_.batches.size(), 1U);
  EXPECT_EQ(sink_.batches[0].outputs.size(), 40U);
  ASSERT_EQ(sink_.batches[0].loads.size(), 2U);
  EXPECT_EQ(sink_.batches[0].loads[0].passes_total, 20U);
  EXPECT_EQ(sink_.batches[0].loads[0].requests_running, 0U);
}

TEST_F(RankHostTest, FreeRunningOutputIsHandedOverAfterABoundedNumberOfRounds) {
  SchedulerConfig config = Config();
  config.speedup_ratio = 0.0;
  Make(config);
  Submit(1, 100);
  Turn();
  EXPECT_EQ(sink_.outputs(), 100U);
  EXPECT_GE(sink_.batches.size(), 100U / kFlushRounds);
  for (const engine::PassBatch& batch : sink_.batches) {
    EXPECT_LE(batch.outputs.size(), kFlushRounds);
  }
  EXPECT_EQ(sink_.calls.front(), 'e') << "events before the tokens that caused them";
}

TEST_F(RankHostTest, HandsOverWhenTheFirstOutputHasWaitedLongEnough) {
  SchedulerConfig config = Config();
  config.speedup_ratio = 0.0;
  Make(config);
  Submit(1, 100);
  host_->RunDue(clock_.Now());
  host_->RunDue(clock_.Now());
  EXPECT_FALSE(host_->FlushDue(clock_.Now()));
  EXPECT_TRUE(host_->FlushDue(clock_.Now() + kFlushDelay));
}

TEST_F(RankHostTest, NothingStartsBeforeTheStartupTime) {
  Make(Config(), 1, milliseconds(500));
  Submit(1, 1);
  Turn();
  EXPECT_TRUE(sink_.calls.empty());
  EXPECT_EQ(NextIn(), milliseconds(500));
  TurnAtDeadline();
  EXPECT_EQ(sink_.calls, "e");
  EXPECT_EQ(NextIn(), milliseconds(514));
}

TEST_F(RankHostTest, BatchesUnderWayCountUntilTheyAreDestroyed) {
  SchedulerConfig config = Config();
  config.speedup_ratio = 0.0;
  config.blocks_total = 100000;
  config.budget = 0;
  config.running_max = 0;
  Make(config);
  constexpr std::uint32_t kRequests = 1000;
  for (std::uint64_t id = 0; id < kRequests; ++id) {
    Submit(id, 200);
  }
  while (!host_->Congested() && host_->RunDue(clock_.Now())) {
    host_->Flush();
  }
  EXPECT_TRUE(host_->Congested());
  EXPECT_GT(sink_.outputs(), static_cast<std::size_t>(kInFlightMax) / 2);
  EXPECT_LE(sink_.outputs(), static_cast<std::size_t>(kInFlightMax) + kRequests);
  sink_.batches.clear();
  EXPECT_FALSE(host_->Congested());
}

TEST_F(RankHostTest, AStrictRankThatCannotMoveWaitsForACommand) {
  SchedulerConfig config = Config();
  config.strict_reference = true;
  config.chunked_prefill = false;
  config.budget = 4;
  Make(config);
  Submit(1, 1, 0, /*prompt=*/8);
  Submit(2, 1, 0, /*prompt=*/4);
  Turn();
  EXPECT_FALSE(host_->NextDeadline().has_value());
  Submit(3, 1, 0, /*prompt=*/4);
  Turn();
  EXPECT_FALSE(host_->NextDeadline().has_value()) << "nobody overtakes, and nothing spins";
}

/// Release 1.6: prefill 10 ms with the first token, each further one 4 ms.
SchedulerConfig NewRelease() {
  SchedulerConfig config = SmallRank();
  config.blocks_total = 1000;
  config.semantics = SemanticsOf(SemanticsRelease::k16, EngineType::kVllm);
  return config;
}

TEST_F(RankHostTest, RanksThatSharePassesStartTogetherAndEndWithTheSlowest) {
  SchedulerConfig config = NewRelease();
  config.collect_stats = true;
  Make(config, 2, Nanoseconds(0), 2);
  Submit(1, 3, 0);
  Turn();
  EXPECT_EQ(NextIn(), milliseconds(10));
  clock_.Advance(milliseconds(3));
  Submit(2, 2, 1);
  Turn();
  EXPECT_EQ(NextIn(), milliseconds(10)) << "nobody starts while a pass is open";
  TurnAtDeadline();
  EXPECT_EQ(sink_.outputs(), 1U);
  ASSERT_EQ(sink_.batches.back().passes.size(), 2U);
  EXPECT_EQ(sink_.batches.back().passes[1].prefill.count, 0U) << "it had nothing to do";
  EXPECT_EQ(sink_.batches.back().passes[1].duration, milliseconds(10));
  EXPECT_EQ(NextIn(), milliseconds(20)) << "one decodes 4 ms, the other has a prompt";
  TurnAtDeadline();
  EXPECT_EQ(sink_.outputs(), 3U);
}

TEST_F(RankHostTest, TheNewReleaseCatchesUpWithFiveMilliseconds) {
  Make(NewRelease());
  Submit(1, 100);
  Turn();
  TurnAtDeadline(milliseconds(4));
  EXPECT_EQ(NextIn(), milliseconds(10 + 4 + 4)) << "the pass that was due and one more";
  TurnAtDeadline(milliseconds(30));
  EXPECT_EQ(*host_->NextDeadline(), clock_.Now() - milliseconds(5) + milliseconds(4 + 4));
}

TEST_F(RankHostTest, ATransferFromTheHostWakesAnIdleRank) {
  SchedulerConfig config = NewRelease();
  config.blocks_total = 8;
  config.kv_cache_bytes_per_token = 250'000;  // a block of 4 tokens: 1 ms at 1 GB/s
  config.host_offload = {
      .num_host_blocks = 32, .d2h_bandwidth_gbps = 1.0, .h2d_bandwidth_gbps = 1.0};
  Make(config);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Submit(id, 1, 0, 16);
    Turn();
    TurnAtDeadline();
  }
  while (host_->NextDeadline()) {
    TurnAtDeadline();  // what is still being stored
  }
  const TimePoint now = clock_.Now();
  ASSERT_TRUE(bound_->Take(RankIndex{0}));
  host_->Apply(MakeRequest(4, 100, 18, 2));  // the first prompt, which the device has lost
  Turn();
  ASSERT_TRUE(host_->NextDeadline());
  EXPECT_EQ(*host_->NextDeadline() - now, milliseconds(4)) << "four blocks";
  TurnAtDeadline();
  EXPECT_EQ(*host_->NextDeadline() - now, milliseconds(14)) << "the rest of the prompt";
  TurnAtDeadline();
  ASSERT_EQ(sink_.batches.back().admissions.size(), 1U);
  EXPECT_EQ(sink_.batches.back().admissions[0].cached_tokens, 16U);
  EXPECT_TRUE(std::any_of(sink_.kv_events.begin(), sink_.kv_events.end(), [](const auto& event) {
    return event.tier == StorageTier::kHostPinned;
  }));
}

TEST_F(RankHostTest, ACancelFreesTheBlocksWhileThePassIsStillRunning) {
  Make(NewRelease());
  Submit(1, 10);
  Turn();
  TurnAtDeadline();
  host_->Apply(CancelCommand{RequestId{1}, RankIndex{0}});
  Turn();
  ASSERT_FALSE(sink_.batches.empty());
  EXPECT_EQ(sink_.batches.back().loads.back().blocks_active, 0U);
  EXPECT_TRUE(host_->NextDeadline()) << "its time still passes";
}

}  // namespace
}  // namespace understudy::mocker
