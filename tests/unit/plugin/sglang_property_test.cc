// Random workloads on an SGLang-style rank; the parameter that gtest prints is the seed to run one
// again.
#include "tests/unit/plugin/random_handoffs.h"
#include "tests/unit/plugin/random_workload.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

SchedulerConfig RandomConfig(RandomSource& random) {
  SchedulerConfig config;
  config.engine_type = EngineType::kSglang;
  const bool new_release = random.Chance(50);
  config.semantics =
      SemanticsOf(new_release ? SemanticsRelease::k16 : SemanticsRelease::k13, config.engine_type);
  if (new_release) {
    config.model_len_max = random.Chance(30) ? 20 + random.Below(60) : 0;
    config.prefill_decode_interval = random.Chance(30) ? 1 + random.Below(4) : 0;
  }
  config.block_size = random.Chance(20) ? 1 : 1 + random.Below(8);
  config.blocks_total = 4 + random.Below(240 / config.block_size);
  config.running_max = random.Chance(30) ? 0 : 1 + random.Below(8);
  config.prefix_caching = !random.Chance(15);
  config.speedup_ratio = random.Chance(50) ? 0.0 : 1.0;
  config.seed = random.Below(1000);
  config.worker_type = static_cast<WorkerType>(random.Below(3));
  SglangOptions& sglang = config.sglang;
  sglang.schedule_policy = random.Chance(50) ? SglangPolicy::kLpm : SglangPolicy::kFifo;
  sglang.chunked_prefill_size = config.block_size * (1 + random.Below(12));
  sglang.max_prefill_tokens =
      random.Chance(60) ? 16384 : config.block_size * (1 + random.Below(12));
  sglang.clip_max_new_tokens = random.Chance(40) ? 1 + random.Below(8) : 4096;
  sglang.schedule_conservativeness = random.Below(4) * 0.5;
  if (random.Chance(30)) {
    SpeculativeOptions& speculative = config.speculative.emplace();
    for (std::uint32_t drafts = 1 + random.Below(5); drafts > 0; --drafts) {
      speculative.accept_rates.push_back(static_cast<double>(random.Below(5)) / 4.0);
    }
    speculative.seed = random.Below(1000);
  }
  return config;
}

std::uint32_t RandomRanks(const SchedulerConfig& config, RandomSource& random) {
  return config.semantics.ranks_share_passes && random.Chance(40) ? 1 + random.Below(3) : 1;
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

class SglangProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SglangProperty, EveryRequestEndsAndNoPageIsLost) {
  RunWorkload(RandomSource(GetParam()), /*cancels=*/false);
}

TEST_P(SglangProperty, CancelAtAnyMomentFreesEverything) {
  RunWorkload(RandomSource(GetParam() + 1000000), /*cancels=*/true);
}

TEST_P(SglangProperty, SameSeedSameBytes) {
  std::string first;
  std::string second;
  RunWorkload(RandomSource(GetParam()), /*cancels=*/true, &first);
  RunWorkload(RandomSource(GetParam()), /*cancels=*/true, &second);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(second, first);
}

TEST_P(SglangProperty, EveryHandoffEndsAndNoPageIsLost) {
  RandomSource random(GetParam() + 2000000);
  SchedulerConfig config = RandomConfig(random);
  config.blocks_total += 60 / config.block_size;
  Handoffs(config, random).Run();
}

/// What a run says from pass to pass; empty if it comes to a halt.
std::string Transcript(SchedulerConfig config,
                       bool strict,
                       const std::vector<engine::Request>& requests) {
  config.strict_reference = strict;
  TestRank rank(config);
  std::string text;
  for (std::size_t submitted = 0; submitted < requests.size() || rank.any().HasWork();) {
    for (std::size_t i = 0; i < 2 && submitted < requests.size(); ++i) {
      rank.any().Submit(requests[submitted++]);
    }
    const PassOutput& pass = rank.Pass();
    if (!pass.progressed && submitted == requests.size()) {
      return {};
    }
    text += std::to_string(pass.duration().count());
    for (const engine::KvEvent& event : pass.events) {
      text += " " + std::to_string(static_cast<int>(event.kind));
      for (const engine::KvBlock& block : event.blocks) {
        text += " " + std::to_string(Value(block.block_hash));
      }
    }
    for (const engine::Output& output : pass.outputs) {
      text += " " + std::to_string(Value(output.id)) + ":" + std::to_string(output.token);
    }
    text += "\n";
  }
  return text;
}

TEST_P(SglangProperty, DiffersFromTheOriginalOnlyWhereThatHalts) {
  RandomSource random(GetParam() + 3000000);
  SchedulerConfig config = RandomConfig(random);
  config.blocks_total += 60 / config.block_size;
  config.speedup_ratio = 1.0;
  config.model_len_max = 0;
  std::vector<engine::Request> requests;
  for (std::uint64_t id = 0; id < 12; ++id) {
    requests.push_back(RandomRequest(random, id));
  }
  const std::string strict = Transcript(config, true, requests);
  const std::string ours = Transcript(config, false, requests);
  EXPECT_FALSE(ours.empty());
  if (!strict.empty()) {
    EXPECT_EQ(ours, strict);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SglangProperty, ::testing::Range(0U, 1000U));

}  // namespace
}  // namespace understudy::mocker
