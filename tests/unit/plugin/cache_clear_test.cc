// Forgetting what is cached: in the pools, in a rank of each family, in a host whose pass is under
// way, and in the engine with its threads.
#include "plugin/mocker/kv_cache/block_pool.h"
#include "plugin/mocker/kv_cache/copy_pool.h"
#include "plugin/mocker/live/rank_host.h"
#include "tests/fakes/manual_clock.h"
#include "tests/unit/plugin/rank.h"
#include "understudy/mocker/mocker_engine.h"

#include <future>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::InUse;
using Kind = engine::KvEvent::Kind;

std::string Words(const std::vector<engine::KvEvent>& events) {
  std::string words;
  for (const engine::KvEvent& event : events) {
    words += event.kind == Kind::kStored ? 's' : event.kind == Kind::kRemoved ? 'r' : 'c';
    words += std::to_string(event.blocks.size());
  }
  return words;
}

struct Family {
  const char* name;
  EngineType type;
  SemanticsRelease release;
};
class CacheClear : public ::testing::TestWithParam<Family> {
 protected:
  static SchedulerConfig Config() {
    SchedulerConfig config = SmallRank();
    config.engine_type = GetParam().type;
    config.semantics = SemanticsOf(GetParam().release, GetParam().type);
    return config;
  }
  static void RunOut(TestRank& rank) {
    for (int i = 0; i < 100 && rank.any().HasWork(); ++i) {
      rank.Pass();
    }
    ASSERT_FALSE(rank.any().HasWork());
  }
};

TEST_P(CacheClear, AnUnusedCacheIsEmptiedWithOneClearedEvent) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 100, 16, 2));
  RunOut(rank);
  const std::uint64_t cached = rank.any().blocks().cached;
  ASSERT_GE(cached, 4U);
  const std::uint64_t events = rank.any().event_count();
  CommandOutput output;
  EXPECT_EQ(rank.any().ClearCache(InUse::kRefuse, output), std::optional(cached));
  EXPECT_EQ(Words(output.events), "c0");
  EXPECT_EQ(output.events.at(0).event_id, events);
  EXPECT_EQ(rank.any().blocks().free, 16U);
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_P(CacheClear, AnEmptyCacheSaysSoAgain) {
  TestRank rank(Config());
  CommandOutput output;
  EXPECT_EQ(rank.any().ClearCache(InUse::kKeep, output), std::optional(std::uint64_t{0}));
  EXPECT_EQ(Words(output.events), "c0") << "a router that went wrong gets it right again";
}

TEST_P(CacheClear, BlocksInUseStayAndTheOthersAreNamed) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 100, 16, 2));
  RunOut(rank);
  rank.any().Submit(MakeRequest(2, 500, 8, 50));
  rank.Pass();
  rank.Pass();
  const BlockCounts before = rank.any().blocks();
  ASSERT_GE(before.cached, 4U);
  ASSERT_GE(before.used, 2U);
  CommandOutput output;
  EXPECT_FALSE(rank.any().ClearCache(InUse::kRefuse, output).has_value());
  EXPECT_EQ(rank.any().blocks().cached, before.cached);
  EXPECT_EQ(Words(output.events), "");

  EXPECT_EQ(rank.any().ClearCache(InUse::kKeep, output), std::optional(before.cached));
  EXPECT_EQ(Words(output.events), "r" + std::to_string(before.cached));
  EXPECT_EQ(rank.any().blocks().used, before.used);
  EXPECT_EQ(rank.any().blocks().cached, 0U);
  EXPECT_EQ(rank.any().CheckConsistency(), "");
}

TEST_P(CacheClear, TheSamePromptIsComputedAgain) {
  TestRank rank(Config());
  rank.any().Submit(MakeRequest(1, 100, 16, 2));
  RunOut(rank);
  CommandOutput output;
  ASSERT_TRUE(rank.any().ClearCache(InUse::kKeep, output).has_value());
  rank.any().Submit(MakeRequest(2, 100, 16, 2));
  const PassOutput& pass = rank.Pass();
  ASSERT_EQ(pass.admissions.size(), 1U);
  EXPECT_EQ(pass.admissions[0].cached_tokens, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Families,
    CacheClear,
    ::testing::Values(Family{"Vllm13", EngineType::kVllm, SemanticsRelease::k13},
                      Family{"Vllm16", EngineType::kVllm, SemanticsRelease::k16},
                      Family{"Trtllm", EngineType::kTrtllm, SemanticsRelease::k13},
                      Family{"Sglang", EngineType::kSglang, SemanticsRelease::k13}),
    [](const auto& tested) { return std::string(tested.param.name); });

/// A rank whose prompts go to the host's memory as well.
class CacheClearWithHost : public ::testing::Test {
 protected:
  /// Transfers take far longer than the passes.
  static SchedulerConfig Config() {
    SchedulerConfig config = SmallRank();
    config.semantics = SemanticsOf(SemanticsRelease::k16, EngineType::kVllm);
    config.kv_cache_bytes_per_token = 1024;
    config.host_offload =
        HostOffloadOptions{.num_host_blocks = 64, .latency_to_first_byte_ms = 1e6};
    return config;
  }
  CacheClearWithHost() { rank_.any().Submit(MakeRequest(1, 100, 16, 2)); }

  [[nodiscard]] std::size_t OnHost() {
    return rank_.any().KnownBlocks(StorageTier::kHostPinned).size();
  }
  TestRank rank_{Config()};
};

TEST_F(CacheClearWithHost, BothTiersAreEmptiedWithOneEvent) {
  while (rank_.HasWork()) {
    rank_.Pass();
  }
  CommandOutput transfers;
  while (rank_.AwaitTransfer(0, transfers)) {
  }
  ASSERT_GE(OnHost(), 4U);
  CommandOutput output;
  ASSERT_TRUE(rank_.any().ClearCache(InUse::kRefuse, output).has_value());
  EXPECT_EQ(Words(output.events), "c0");
  EXPECT_EQ(OnHost(), 0U);
  EXPECT_EQ(rank_.any().CheckConsistency(), "");
}

TEST_F(CacheClearWithHost, WhatIsUnderWayComesAllTheSame) {
  while (rank_.HasWork()) {
    rank_.Pass();
  }
  ASSERT_TRUE(rank_.any().NextTransfer().has_value());
  const std::uint64_t cached = rank_.any().blocks().cached;
  CommandOutput output;
  ASSERT_TRUE(rank_.any().ClearCache(InUse::kKeep, output).has_value());
  EXPECT_EQ(Words(output.events), "r" + std::to_string(cached)) << "no clear: more is to come";
  CommandOutput transfers;
  while (rank_.AwaitTransfer(0, transfers)) {
  }
  EXPECT_GE(OnHost(), 4U);
  EXPECT_EQ(rank_.any().CheckConsistency(), "");
}

TEST(CacheClearWithoutEvents, SaysNothing) {
  SchedulerConfig config = SmallRank();
  config.kv_events = false;
  TestRank rank(config);
  CommandOutput output;
  ASSERT_TRUE(rank.any().ClearCache(InUse::kKeep, output).has_value());
  EXPECT_TRUE(output.events.empty());
}

class CountingSink final : public engine::EngineSink {
 public:
  void OnKvEvents(std::vector<engine::KvEvent> events) override { words += Words(events); }
  void OnPassBatch(engine::PassBatch /*batch*/) override {}
  std::string words;
};

/// A host of two ranks whose passes take a millisecond.
class ClearInHost : public ::testing::Test {
 protected:
  class OneMillisecond final : public PerfModel {
   public:
    [[nodiscard]] double PrefillMs(const PrefillBatch& /*batch*/) const override { return 1.0; }
    [[nodiscard]] double DecodeMs(const DecodeBatch& /*batch*/) const override { return 0.0; }
  };
  ClearInHost() {
    config_ = SmallRank();
    config_.policy = &policy_;
    config_.perf_model = &model_;
    host_ = std::make_unique<RankHost>(config_, RankHost::Share{0, 1, 2}, bound_);
    host_->Start(sink_, clock_.Now());
  }
  void Turn() {
    while (host_->RunDue(clock_.Now())) {
    }
    host_->Flush();
  }
  void Clear(InUse in_use = InUse::kKeep) {
    auto reply = std::make_shared<Gather<engine::CacheCleared>>(
        [this](std::vector<engine::CacheCleared> all) { answers_.push_back(std::move(all)); });
    host_->Apply(ClearCommand{{RankIndex{0}, 2}, in_use, std::move(reply)});
  }
  void Submit(std::uint64_t id, std::uint32_t outputs) {
    ASSERT_TRUE(bound_.Take(RankIndex{0}));
    host_->Apply(MakeRequest(id, static_cast<std::uint32_t>(100 * id), 8, outputs, 0));
  }

  ManualClock clock_;
  VllmPolicy policy_;
  OneMillisecond model_;
  SchedulerConfig config_;
  WaitingBound bound_{2, 100};
  CountingSink sink_;
  std::unique_ptr<RankHost> host_;
  std::vector<std::vector<engine::CacheCleared>> answers_;
};

TEST_F(ClearInHost, WaitsForThePassAndAnswersAfterItsEvents) {
  Submit(1, 1);
  Turn();
  ASSERT_EQ(sink_.words, "s2");
  Clear(InUse::kRefuse);
  Turn();
  EXPECT_TRUE(answers_.empty()) << "rank 0 is in a pass";
  EXPECT_EQ(sink_.words, "s2c0") << "rank 1 is not";
  clock_.Set(*host_->NextDeadline());
  while (host_->RunDue(clock_.Now())) {
  }
  EXPECT_TRUE(answers_.empty()) << "its events were not handed over yet";
  host_->Flush();
  EXPECT_EQ(sink_.words, "s2c0c0");
  ASSERT_EQ(answers_.size(), 1U);
  ASSERT_EQ(answers_[0].size(), 2U);
  EXPECT_EQ(answers_[0][0].rank, RankIndex{0});
  EXPECT_EQ(answers_[0][0].blocks_cleared, 2U);
  EXPECT_FALSE(answers_[0][0].refused);
  EXPECT_EQ(answers_[0][1].blocks_cleared, 0U);
}

TEST_F(ClearInHost, MoreThanMayWaitAreRefused) {
  Submit(1, 1);
  Turn();
  for (std::size_t i = 0; i < kParkedClearsMax; ++i) {
    Clear();
  }
  Turn();
  EXPECT_TRUE(answers_.empty());
  Clear();
  Turn();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(answers_[0][0].refused);
  EXPECT_FALSE(answers_[0][1].refused);
  clock_.Set(*host_->NextDeadline());
  Turn();
  EXPECT_EQ(answers_.size(), kParkedClearsMax + 1);
}

TEST_F(ClearInHost, WhatIsAskedIsAnsweredWhenTheHostGoes) {
  Submit(1, 1);
  Turn();
  Clear();
  host_.reset();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].size(), 1U) << "rank 0 has not answered";
}

TEST(ClearInEngine, RanksOfAllThreadsAnswerInOrder) {
  MockerOptions options;
  options.rank_count = 5;
  options.thread_count = 2;
  options.num_gpu_blocks = 64;
  SteadyClock clock;
  CountingSink sink;
  auto engine = *NewMockerEngine(options, clock, nullptr);
  ASSERT_TRUE(engine->Start(sink).has_value());
  std::promise<std::vector<engine::RankStatus>> read;
  engine->ReadRanks(
      RankIndex{1}, 3, [&](std::vector<engine::RankStatus> all) { read.set_value(all); });
  const auto ranks = read.get_future().get();
  ASSERT_EQ(ranks.size(), 3U);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i].rank, RankIndex{i + 1});
    EXPECT_EQ(ranks[i].blocks_total, 64U);
  }
  std::promise<std::vector<engine::CacheCleared>> cleared;
  engine->ClearCache(RankIndex{4}, 100, InUse::kRefuse, [&](std::vector<engine::CacheCleared> all) {
    cleared.set_value(std::move(all));
  });
  EXPECT_EQ(cleared.get_future().get().size(), 1U);
  engine->Stop();
  std::promise<std::vector<engine::RankStatus>> after;
  engine->ReadRanks(RankIndex{0}, 5, [&](auto all) { after.set_value(std::move(all)); });
  EXPECT_TRUE(after.get_future().get().empty()) << "it has stopped";
}

}  // namespace
}  // namespace understudy::mocker
