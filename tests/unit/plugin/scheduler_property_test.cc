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
  config.prefill_schedule_interval = 1 + random.Below(4);
  if (random.Chance(50) && release == SemanticsRelease::k16 &&
      config.engine_type == EngineType::kVllm) {
    config.speculative.reset();
    config.prefix_caching = true;
    config.kv_cache_bytes_per_token = 100'000;
    config.host_offload = {.num_host_blocks = 1 + random.Below(80),
                           .d2h_bandwidth_gbps = random.Below(4) * 0.05,
                           .h2d_bandwidth_gbps = random.Below(4) * 0.05,
                           .latency_to_first_byte_ms = random.Below(3) * 1.0};
  }
  return config;
}

/// Those of 1.3 share nothing.
std::uint32_t RandomRanks(const SchedulerConfig& config, RandomSource& random) {
  return config.semantics.ranks_share_passes && random.Chance(50) ? 1 + random.Below(3) : 1;
}

void RunWorkload(RandomSource random, bool cancels, std::string* transcript = nullptr) {
  const SchedulerConfig config = RandomConfig(random);
  const std::uint32_t ranks = RandomRanks(config, random);
  Workload workload(config, random, cancels, ranks);
  workload.Run();
  if (transcript != nullptr) {
    *transcript = workload.transcript();
  }
}

class SchedulerProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SchedulerProperty, EveryRequestEndsAndNoBlockIsLost) {
  RunWorkload(RandomSource(GetParam()), /*cancels=*/false);
}

TEST_P(SchedulerProperty, CancelAtAnyMomentFreesEverything) {
  RunWorkload(RandomSource(GetParam() + 1000000), /*cancels=*/true);
}

TEST_P(SchedulerProperty, SameSeedSameBytes) {
  std::string first;
  std::string second;
  RunWorkload(RandomSource(GetParam()), /*cancels=*/true, &first);
  RunWorkload(RandomSource(GetParam()), /*cancels=*/true, &second);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(second, first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerProperty, ::testing::Range(0U, 1000U));

}  // namespace
}  // namespace understudy::mocker
