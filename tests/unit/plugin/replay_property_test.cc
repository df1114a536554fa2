// Random runs: nothing gets lost, and the same seed gives the same run.
#include "tests/unit/plugin/replay_case.h"

#include <random>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Random = std::mt19937;

std::uint32_t Between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (high - low + 1));
}

MockerOptions RandomEngine(Random& random) {
  MockerOptions options;
  options.engine_type = random() % 3 == 0 ? EngineType::kSglang : EngineType::kVllm;
  options.block_size = 8U << (random() % 3);
  options.num_gpu_blocks = Between(random, 40, 200);
  options.max_num_seqs = Between(random, 1, 12);
  options.max_num_batched_tokens = Between(random, 64, 1024);
  options.enable_prefix_caching = random() % 5 != 0;
  options.preemption_mode = random() % 2 == 0 ? PreemptionMode::kLifo : PreemptionMode::kFifo;
  options.speedup_ratio = random() % 6 == 0 ? 0.0 : 1.0;
  options.kv_bytes_per_token = 100'000;
  options.kv_transfer_bandwidth = 10.0;
  return options;
}

ReplayOptions RandomOptions(Random& random) {
  ReplayOptions options;
  const MockerOptions engine = RandomEngine(random);
  if (random() % 3 == 0) {
    // In pools that hold hardly more than one request, prompts held for a transfer and requests
    // that run can starve each other: no run at all in the original.
    options.prefill_engine = options.decode_engine = engine;
    options.prefill_engine->num_gpu_blocks += 400;
    options.decode_engine->num_gpu_blocks += 400;
    options.prefill_engine->worker_type = WorkerType::kPrefill;
    options.decode_engine->worker_type = WorkerType::kDecode;
    options.num_prefill_workers = Between(random, 1, 3);
    options.num_decode_workers = Between(random, 1, 3);
  } else {
    options.engine = engine;
    options.num_workers = Between(random, 1, 4);
  }
  if (options.num_workers > 1 || options.prefill_engine) {
    options.router_mode = random() % 2 == 0 ? ReplayRouterMode::kKv : ReplayRouterMode::kRoundRobin;
    options.router.router_temperature = random() % 2 == 0 ? 0.0 : 0.7;
    options.router.router_queue_threshold = random() % 2 == 0 ? 0.05 : 16.0;
  }
  if (random() % 3 == 0) {
    options.replay_concurrency = Between(random, 1, 10);
  }
  options.seed = random();
  return options;
}

SyntheticOptions RandomWorkload(Random& random) {
  SyntheticOptions options;
  options.request_count = Between(random, 1, 60);
  options.input_tokens = Between(random, 1, 400);
  options.output_tokens = Between(random, 1, 60);
  options.arrival_interval_ms = Between(random, 0, 40);
  options.poisson_arrivals = random() % 2 == 0;
  options.turns_per_session = Between(random, 1, 3);
  options.inter_turn_delay_ms = Between(random, 0, 20);
  options.shared_prefix_ratio = random() % 2 == 0 ? 0.5 : 0.0;
  options.num_prefix_groups = 3;
  options.block_size = 8U << (random() % 3);
  options.seed = random();
  return options;
}

class ReplaySeeds : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  struct Outcome {
    Result<ReplayReport> report;
    std::vector<std::string> records;
    std::uint64_t tokens = 0;
  };

  static Outcome Replayed(const ReplayOptions& options, const SyntheticOptions& workload) {
    std::vector<std::string> records;
    ReplayObserver observer;
    observer.on_record = [&](const ReplayRecord& record) {
      records.push_back(RecordJson(record).dump() + record.uuid);
    };
    const auto source = NewSyntheticSource(workload);
    Result<ReplayReport> report = RunReplay(options, *source, observer);
    return {std::move(report), std::move(records)};
  }
};

TEST_P(ReplaySeeds, EveryRequestEndsOnceAndTheSeedDecidesAll) {
  Random random(GetParam());
  const ReplayOptions options = RandomOptions(random);
  const SyntheticOptions workload = RandomWorkload(random);

  const Outcome first = Replayed(options, workload);

  ASSERT_TRUE(first.report) << first.report.error().message;
  const ReplayReport& report = *first.report;
  const std::uint64_t rows = workload.request_count * workload.turns_per_session;
  EXPECT_EQ(report.num_requests, rows);
  EXPECT_EQ(first.records.size(), rows);
  EXPECT_GE(report.completed_requests + report.rejected_requests + report.failed_requests, rows);
  EXPECT_EQ(report.ttft.count, report.completed_requests);
  EXPECT_EQ(report.e2e_latency.count, report.completed_requests);
  if (report.failed_requests == 0) {
    EXPECT_EQ(report.completed_requests + report.rejected_requests, rows);
    EXPECT_EQ(report.itl.count + report.completed_requests, report.total_output_tokens);
  }
  EXPECT_LE(report.prefix_cache_reused_ratio, 1.0);
  EXPECT_LE(report.series.buckets.size(), kReplayBucketsMax);

  const Outcome again = Replayed(options, workload);
  ASSERT_TRUE(again.report);
  EXPECT_EQ(first.records, again.records);
  EXPECT_EQ(ReportNumbers(report), ReportNumbers(*again.report));
  EXPECT_EQ(report.passes, again.report->passes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplaySeeds, ::testing::Range(0U, 200U));

}  // namespace
}  // namespace understudy::mocker
