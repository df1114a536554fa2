#include "plugin/mocker/config/options.h"

#include <limits>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

std::string TextFor(const MockerOptions& options) {
  const Status status = ValidateOptions(options);
  if (status.has_value()) {
    return "accepted";
  }
  EXPECT_EQ(status.error().code, Errc::kInvalidConfig);
  return status.error().message;
}

// Texts: engine_args_validation.json, dynamo-mocker 1.3.0, without the prefix of its Python
// binding.
TEST(ValidateOptions, RefusesWithTheTextsOfTheOriginal) {
  const std::string range = "Failed to validate MockEngineArgs: ";
  EXPECT_EQ(
      TextFor({.num_gpu_blocks = 0}),
      range +
          R"(num_gpu_blocks: Validation error: range [{"min": Number(1), "value": Number(0)}])");
  EXPECT_EQ(
      TextFor({.max_num_seqs = 0}),
      range + R"(max_num_seqs: Validation error: range [{"min": Number(1), "value": Number(0)}])");
  EXPECT_EQ(
      TextFor({.max_num_batched_tokens = 0}),
      range +
          R"(max_num_batched_tokens: Validation error: range [{"min": Number(1), "value": Number(0)}])");
  EXPECT_EQ(
      TextFor({.speedup_ratio = -1.0}),
      range +
          R"(speedup_ratio: Validation error: range [{"min": Number(0.0), "value": Number(-1.0)}])");
  EXPECT_EQ(
      TextFor({.decode_speedup_ratio = -0.5}),
      range +
          R"(decode_speedup_ratio: Validation error: range [{"min": Number(0.0), "value": Number(-0.5)}])");
  EXPECT_EQ(TextFor({.rank_count = 0}),
            range + R"(dp_size: Validation error: range [{"min": Number(1), "value": Number(0)}])");
  EXPECT_EQ(
      TextFor({.startup_time = std::chrono::seconds(-1)}),
      range +
          R"(startup_time: Validation error: range [{"min": Number(0.0), "value": Number(-1.0)}])");
  EXPECT_EQ(TextFor({.block_size = 0}), range + "__all__: block_size must be greater than 0");
}

TEST(ValidateOptions, RefusesBlocksOfOneTokenBeforeARequestCanFail) {
  const std::string error = "vLLM/TRT-LLM block_size must be at least two, got 1";
  EXPECT_EQ(TextFor({.block_size = 1}), error);
  EXPECT_EQ(TextFor({.engine_type = EngineType::kTrtllm, .block_size = 1}), error);
  EXPECT_EQ(TextFor({.engine_type = EngineType::kSglang, .block_size = 1}), "accepted");
}

TEST(ValidateOptions, RefusesNumbersThatAreNone) {
  EXPECT_EQ(TextFor({.speedup_ratio = std::numeric_limits<double>::infinity()}),
            "speedup_ratio must be finite and non-negative, got inf");
  EXPECT_EQ(TextFor({.decode_speedup_ratio = std::numeric_limits<double>::quiet_NaN()}),
            "decode_speedup_ratio must be finite and non-negative, got NaN");
  EXPECT_NE(TextFor({.num_gpu_blocks = 1ULL << 40U}), "accepted");
  EXPECT_NE(TextFor({.waiting_requests_max = 0}), "accepted");
}

TEST(ValidateOptions, RefusesDraftsThatCannotBeDrawn) {
  EXPECT_NE(TextFor({.speculative = SpeculativeOptions{}}), "accepted");
  EXPECT_NE(TextFor({.speculative = SpeculativeOptions{{0, 0, 0, 0, 0, 0}}}), "accepted");
  EXPECT_NE(TextFor({.speculative = SpeculativeOptions{{1.5}}}), "accepted");
  EXPECT_NE(TextFor({.decode_speedup_ratio = 2, .speculative = SpeculativeOptions{{0.5}}}),
            "accepted");
  EXPECT_EQ(TextFor({.speculative = SpeculativeOptions{{0.5}}}), "accepted");
}

TEST(ValidateOptions, AcceptsTheDefaultsAndUnlimitedRuns) {
  EXPECT_EQ(TextFor({}), "accepted");
  EXPECT_EQ(TextFor({.max_num_seqs = std::nullopt, .max_num_batched_tokens = std::nullopt}),
            "accepted");
  EXPECT_EQ(TextFor({.speedup_ratio = 0.0}), "accepted");
}

TEST(MakeSchedulerConfig, HasNoEventsWithoutPrefixCachingAndOnDecodeWorkers) {
  EXPECT_TRUE(MakeSchedulerConfig({}).kv_events);
  EXPECT_FALSE(MakeSchedulerConfig({.enable_prefix_caching = false}).kv_events);
  EXPECT_FALSE(MakeSchedulerConfig({.worker_type = WorkerType::kDecode}).kv_events);
}

TEST(ThreadCount, IsBoundedByTheRanks) {
  EXPECT_EQ(ThreadCount({.rank_count = 1, .thread_count = 8}), 1U);
  EXPECT_EQ(ThreadCount({.rank_count = 100, .thread_count = 3}), 3U);
  EXPECT_GE(ThreadCount({.rank_count = 100}), 1U);
}

}  // namespace
}  // namespace understudy::mocker
