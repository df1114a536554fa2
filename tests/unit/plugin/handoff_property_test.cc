// Random hand-offs beside ordinary requests on one rank; the parameter that gtest prints is the
// seed to run one again.
#include "tests/unit/plugin/random_handoffs.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

class HandoffProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(HandoffProperty, EveryHandoffEndsAndNoBlockIsLost) {
  RandomSource random(GetParam());
  SchedulerConfig config;
  const bool new_release = random.Chance(50);
  if (new_release && random.Chance(30)) {
    config.engine_type = EngineType::kTrtllm;
  }
  config.semantics =
      SemanticsOf(new_release ? SemanticsRelease::k16 : SemanticsRelease::k13, config.engine_type);
  config.block_size = 2 + random.Below(5);
  config.blocks_total = 16 + random.Below(40);
  config.running_max = random.Chance(30) ? 0 : 1 + random.Below(6);
  config.budget = random.Chance(30) ? 0 : 8 + random.Below(60);
  config.preemption = random.Chance(50) ? PreemptionMode::kFifo : PreemptionMode::kLifo;
  if (new_release && config.engine_type == EngineType::kVllm && random.Chance(40)) {
    config.kv_cache_bytes_per_token = 100'000;
    config.host_offload = {.num_host_blocks = 1 + random.Below(60),
                           .d2h_bandwidth_gbps = random.Below(4) * 0.05,
                           .h2d_bandwidth_gbps = random.Below(4) * 0.05};
  } else if (random.Chance(30)) {
    config.speculative = SpeculativeOptions{.accept_rates = {0.5, 0.5}, .seed = GetParam()};
  }
  Handoffs(config, random).Run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, HandoffProperty, ::testing::Range(0U, 300U));

}  // namespace
}  // namespace understudy::mocker
