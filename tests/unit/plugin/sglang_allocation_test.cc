// A steady pass allocates nothing: an allocation a token would cost more than all the rest.
#include "tests/unit/plugin/allocation_count.h"
#include "tests/unit/plugin/rank.h"

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

class SglangAllocation : public ::testing::TestWithParam<std::uint32_t> {};

/// 32 requests decode in a pool that is full of what requests before them left, so that every new
/// page means an eviction.
TEST_P(SglangAllocation, ASteadyPassAllocatesNothing) {
  SchedulerConfig config;
  config.engine_type = EngineType::kSglang;
  config.block_size = GetParam();
  config.blocks_total = 32 * 1024 / config.block_size;
  config.kv_events = false;
  TestRank rank(config);
  std::uint64_t id = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 32; ++i, ++id) {
      rank.any().Submit(MakeRequest(id, static_cast<std::uint32_t>(id * 1000), 100, 800));
    }
    while (round < 2 && rank.any().HasWork()) {
      rank.Pass();
    }
  }
  for (int pass = 0; pass < 100; ++pass) {
    rank.Pass();
  }
  ASSERT_EQ(rank.load().requests_running, 32U);

  const std::uint64_t before = AllocationCount();
  std::size_t tokens = 0;
  for (int pass = 0; pass < 500; ++pass) {
    tokens += rank.Pass().outputs.size();
  }

  EXPECT_EQ(AllocationCount() - before, 0U);
  EXPECT_EQ(tokens, 32U * 500U);
}

INSTANTIATE_TEST_SUITE_P(PageSizes, SglangAllocation, ::testing::Values(1U, 16U, 64U));

}  // namespace
}  // namespace understudy::mocker
