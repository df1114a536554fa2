// Random workloads; the parameter that gtest prints is the seed to run one again.
#include "tests/unit/plugin/random_workload.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

SchedulerConfig RandomConfig(RandomSource& random) {
  SchedulerConfig config;
  config.engine_type = random.Chance(30) ? EngineType::kTrtllm : EngineType::kVllm;
  const auto release = random.Chance(50) ? SemanticsRelease::k16 : SemanticsRelease::k13;
  config.semantics = SemanticsOf(release, config.engine_type);
  config.model_len_max = random.Chance(30) ? 20 + random.Below(60) : 0;
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
