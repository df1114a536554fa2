// Random workloads; the parameter that gtest prints is the seed to run one again.
#include "tests/unit/plugin/random_load.h"
#include "tests/unit/plugin/rank.h"

#include <map>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::OutputKind;

/// Passes after which a workload of this size must be over: every request recomputed several times.
constexpr int kPassesMax = 20000;

SchedulerConfig RandomConfig(RandomSource& random) {
  SchedulerConfig config;
  config.engine_type = random.Chance(30) ? EngineType::kTrtllm : EngineType::kVllm;
  if (random.Chance(30)) {
    SpeculativeOptions& speculative = config.speculative.emplace();
    for (std::uint32_t drafts = 1 + random.Below(5); drafts > 0; --drafts) {
      speculative.accept_rates.push_back(static_cast<double>(random.Below(5)) / 4.0);
    }
    speculative.seed = random.Below(1000);
  }
  if (random.Chance(20)) {
    config.reasoning = {.start_token = 7, .end_token = 8, .thinking_ratio = 0.5};
  }
  config.block_size = 2 + random.Below(7);
  config.blocks_total = 6 + random.Below(60);
  config.running_max = random.Chance(30) ? 0 : 1 + random.Below(8);
  config.budget = random.Chance(30) ? 0 : 1 + random.Below(60);
  config.prefix_caching = !random.Chance(15);
  config.chunked_prefill = !random.Chance(30);
  config.preemption = random.Chance(50) ? PreemptionMode::kFifo : PreemptionMode::kLifo;
  config.speedup_ratio = random.Chance(50) ? 0.0 : 1.0;
  config.seed = random.Below(1000);
  return config;
}

/// Prompts start with one of a few prefixes, so that blocks are shared, and differ afterwards.
engine::Request RandomRequest(RandomSource& random, std::uint64_t id) {
  engine::Request request =
      MakeRequest(id, random.Below(3) * 1000, random.Below(40), 1 + random.Below(40));
  const std::uint32_t tail = random.Below(10);
  for (std::uint32_t i = 0; i < tail; ++i) {
    request.prompt.push_back(100000 + random.Below(1000));
  }
  if (random.Chance(30)) {
    for (std::uint32_t i = 0; i < request.output_tokens_max; ++i) {
      request.planned_tokens.push_back(i);
    }
  }
  return request;
}

/// What became of a request.
struct Fate {
  std::uint32_t asked = 0;
  std::uint32_t tokens = 0;
  bool admitted = false;
  bool ended = false;
  bool cancelled = false;
};

class Workload {
 public:
  Workload(const SchedulerConfig& config, RandomSource& random, bool cancels)
      : caching_(config.prefix_caching),
        may_be_cut_(config.engine_type == EngineType::kTrtllm),
        rank_(config),
        random_(random),
        cancels_(cancels) {}

  void Run() {
    for (int pass = 0; !::testing::Test::HasFailure(); ++pass) {
      Arrive();
      if (!rank_.any().HasWork()) {
        break;
      }
      ASSERT_LT(pass, kPassesMax) << "somebody waits for ever";
      Check(rank_.Pass());
      Leave();
      ASSERT_EQ(rank_.any().CheckConsistency(), "");
    }
    for (const auto& [id, fate] : fates_) {
      EXPECT_TRUE(fate.ended || fate.cancelled) << Value(id);
    }
    const engine::Load load = rank_.load();
    EXPECT_EQ(load.blocks_active + load.requests_running + load.requests_waiting, 0U);
    EXPECT_EQ(rank_.any().unadmitted(), 0U);
  }

  [[nodiscard]] const std::string& transcript() const { return transcript_; }

 private:
  void Arrive() {
    while (submitted_ < 40 && random_.Chance(40)) {
      engine::Request request = RandomRequest(random_, submitted_);
      fates_[request.id].asked = request.output_tokens_max;
      rank_.any().Submit(std::move(request));
      ++submitted_;
    }
    if (submitted_ == 0) {
      Arrive();
    }
  }

  void Leave() {
    if (cancels_ && submitted_ > 0 && random_.Chance(20)) {
      const RequestId id{random_.Below(submitted_)};
      Fate& fate = fates_[id];
      EXPECT_EQ(rank_.any().Cancel(id), !fate.ended && !fate.cancelled);
      fate.cancelled = !fate.ended;
    }
  }

  void Check(const PassOutput& pass) {
    EXPECT_TRUE(pass.progressed) << "a pass with work that does nothing";
    for (const engine::KvEvent& event : pass.events) {
      listener_.Hear(event);
      transcript_ += "e" + std::to_string(event.event_id) + ":" +
                     std::to_string(Value(event.blocks[0].block_hash));
    }
    for (const engine::Admission& admission : pass.admissions) {
      fates_[admission.id].admitted = true;
    }
    for (const engine::Output& output : pass.outputs) {
      CheckOutput(output, pass);
      transcript_ += " " + std::to_string(Value(output.id)) + ":" + std::to_string(output.token);
    }
    transcript_ += " " + std::to_string(pass.duration().count()) + "\n";
    if (caching_) {
      EXPECT_LE(listener_.size(), rank_.any().blocks().total);
    } else {
      EXPECT_TRUE(pass.events.empty());
    }
  }

  void CheckOutput(const engine::Output& output, const PassOutput& pass) {
    Fate& fate = fates_[output.id];
    EXPECT_FALSE(fate.ended || fate.cancelled) << "output after the end";
    const bool token = output.kind == OutputKind::kToken || output.kind == OutputKind::kLastToken;
    fate.tokens += token ? 1U : 0U;
    EXPECT_TRUE(fate.admitted || !token);
    fate.ended = output.kind != OutputKind::kToken;
    if (output.kind == OutputKind::kLastToken) {
      if (may_be_cut_) {  // to what the pool can hold
        EXPECT_LE(fate.tokens, fate.asked);
      } else {
        EXPECT_EQ(fate.tokens, fate.asked);
      }
    }
    if (output.kind == OutputKind::kToken) {
      EXPECT_LT(fate.tokens, fate.asked);
    }
    if (output.kind == OutputKind::kFailed) {
      EXPECT_FALSE(pass.failures.empty());
    }
  }

  const bool caching_;
  const bool may_be_cut_;
  TestRank rank_;
  RandomSource& random_;
  const bool cancels_;
  std::uint32_t submitted_ = 0;
  std::map<RequestId, Fate> fates_;
  Listener listener_;
  std::string transcript_;
};

class SchedulerProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SchedulerProperty, EveryRequestEndsAndNoBlockIsLost) {
  RandomSource random(GetParam());
  Workload(RandomConfig(random), random, /*cancels=*/false).Run();
}

TEST_P(SchedulerProperty, CancelAtAnyMomentFreesEverything) {
  RandomSource random(GetParam() + 1000000);
  Workload(RandomConfig(random), random, /*cancels=*/true).Run();
}

TEST_P(SchedulerProperty, SameSeedSameBytes) {
  const auto run = [] {
    RandomSource random(GetParam());
    Workload workload(RandomConfig(random), random, /*cancels=*/true);
    workload.Run();
    return workload.transcript();
  };
  const std::string first = run();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(run(), first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerProperty, ::testing::Range(0U, 500U));

}  // namespace
}  // namespace understudy::mocker
