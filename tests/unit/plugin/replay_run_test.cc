// Whole runs: what is promised about order, bounds, ends and errors.
#include "plugin/mocker/replay/simulation.h"
#include "tests/unit/plugin/replay_case.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

MockerOptions Engine() {
  MockerOptions options;
  options.block_size = 16;
  options.num_gpu_blocks = 512;
  options.max_num_seqs = 8;
  return options;
}

MockerOptions StageEngine(WorkerType type) {
  MockerOptions options = Engine();
  options.worker_type = type;
  options.kv_bytes_per_token = 131072;
  options.kv_transfer_bandwidth = 64.0;
  return options;
}

SyntheticOptions Requests(std::uint64_t count) {
  SyntheticOptions options;
  options.request_count = count;
  options.input_tokens = 100;
  options.output_tokens = 10;
  options.arrival_interval_ms = 5.0;
  options.block_size = 16;
  return options;
}

struct Ran {
  ReplayReport report;
  std::vector<ReplayRecord> records;
};

Ran Replayed(const ReplayOptions& options, const SyntheticOptions& workload) {
  Ran ran;
  ReplayObserver observer;
  observer.on_record = [&](const ReplayRecord& record) { ran.records.push_back(record); };
  const auto source = NewSyntheticSource(workload);
  Result<ReplayReport> report = RunReplay(options, *source, observer);
  EXPECT_TRUE(report) << report.error().message;
  if (report) {
    ran.report = *report;
  }
  return ran;
}

ReplayOptions Aggregated(std::uint32_t workers = 1) {
  ReplayOptions options;
  options.engine = Engine();
  options.num_workers = workers;
  return options;
}

ReplayOptions Disaggregated() {
  ReplayOptions options;
  options.prefill_engine = StageEngine(WorkerType::kPrefill);
  options.decode_engine = StageEngine(WorkerType::kDecode);
  options.num_prefill_workers = 2;
  options.num_decode_workers = 2;
  return options;
}

/// Greatest number of requests between arrival and last token.
std::size_t MostAtOnce(const std::vector<ReplayRecord>& records) {
  std::vector<std::pair<double, int>> steps;
  for (const ReplayRecord& record : records) {
    steps.emplace_back(record.arrival_time_ms, 1);
    steps.emplace_back(*record.last_token_ms, -1);
  }
  std::sort(steps.begin(), steps.end());  // ends before starts at the same time
  int now = 0;
  int most = 0;
  for (const auto& [at, step] : steps) {
    now += step;
    most = std::max(most, now);
  }
  return static_cast<std::size_t>(most);
}

TEST(Replay, AClosedLoopNeverHasMoreThanItsNumberInFlight) {
  for (ReplayOptions options : {Aggregated(), Aggregated(3), Disaggregated()}) {
    options.replay_concurrency = 5;
    const Ran ran = Replayed(options, Requests(60));
    EXPECT_EQ(ran.report.completed_requests, 60U);
    EXPECT_EQ(MostAtOnce(ran.records), 5U);
  }
}

TEST(Replay, AllWorkersGetTheSameNumberInTurn) {
  const Ran ran = Replayed(Aggregated(4), Requests(40));
  std::vector<int> counts(4);
  for (const ReplayRecord& record : ran.records) {
    ++counts[record.decode_worker_idx.value()];
  }
  EXPECT_EQ(counts, (std::vector<int>{10, 10, 10, 10}));
}

TEST(Replay, ATurnArrivesItsDelayAfterTheEndOfTheTurnBefore) {
  SyntheticOptions workload = Requests(6);
  workload.turns_per_session = 3;
  workload.inter_turn_delay_ms = 12.5;
  for (const ReplayOptions& options : {Aggregated(), Aggregated(2), Disaggregated()}) {
    const Ran ran = Replayed(options, workload);
    ASSERT_EQ(ran.records.size(), 18U);
    std::map<std::pair<std::string, std::uint32_t>, ReplayRecord> by_turn;
    for (const ReplayRecord& record : ran.records) {
      by_turn[{record.session_id, record.turn.value()}] = record;
    }
    ASSERT_EQ(by_turn.size(), 18U);
    for (const auto& [key, record] : by_turn) {
      if (key.second > 0) {
        EXPECT_NEAR(record.arrival_time_ms,
                    *by_turn.at({key.first, key.second - 1}).last_token_ms + 12.5,
                    1e-9);
      }
    }
  }
}

TEST(Replay, RecordsComeInTheOrderOfTheirEndsAndHaveNamesOfTheirOwn) {
  const Ran ran = Replayed(Aggregated(2), Requests(50));
  ASSERT_EQ(ran.records.size(), 50U);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ran.records.size(); ++i) {
    names.push_back(ran.records[i].uuid);
    EXPECT_EQ(names.back().size(), 36U);
    EXPECT_EQ(names.back()[14], '4');
    if (i > 0) {
      EXPECT_LE(*ran.records[i - 1].last_token_ms, *ran.records[i].last_token_ms);
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(Replay, PromptsThatFitNowhereAreRejectedAndTheSessionGoesOn) {
  const TraceFile file(std::vector<std::string>{
      R"({"session_id":"s","timestamp":0,"output_length":4,"hash_ids":[1]})",
      R"({"session_id":"s","delay":5,"output_length":4,"hash_ids":[1,2,3,4,5,6]})",
      R"({"session_id":"s","delay":5,"output_length":4,"hash_ids":[1,2]})"});
  for (ReplayOptions options : {Aggregated(), Aggregated(2), Disaggregated()}) {
    for (auto* engine : {&options.engine, &options.prefill_engine, &options.decode_engine}) {
      if (*engine) {
        (*engine)->num_gpu_blocks = 20;
      }
    }
    const auto source = NewMooncakeReader(file.path(), 64);
    std::vector<ReplayRecord> records;
    ReplayObserver observer;
    observer.on_record = [&](const ReplayRecord& record) { records.push_back(record); };
    const Result<ReplayReport> report = RunReplay(options, *source, observer);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->num_requests, 3U);
    EXPECT_EQ(report->completed_requests, 2U);
    EXPECT_EQ(report->rejected_requests, 1U);
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(records[1].status, ReplayStatus::kRejected);
    EXPECT_FALSE(records[1].first_token_ms);
  }
}

TEST(Replay, ADestinationTooSmallForAPromptFailsTheRequest) {
  ReplayOptions options = Disaggregated();
  options.decode_engine->num_gpu_blocks = 5;  // 80 of 100 tokens
  const Ran ran = Replayed(options, Requests(3));
  EXPECT_EQ(ran.report.completed_requests, 0U);
  EXPECT_EQ(ran.report.failed_requests, 3U);
  for (const ReplayRecord& record : ran.records) {
    EXPECT_EQ(record.status, ReplayStatus::kFailed);
    EXPECT_TRUE(record.source_held_ms);
    EXPECT_FALSE(record.destination_reserved_ms);
  }
}

std::string ErrorOf(const ReplayOptions& options, const SyntheticOptions& workload) {
  const auto source = NewSyntheticSource(workload);
  const Result<ReplayReport> report = RunReplay(options, *source);
  return report ? "" : report.error().message;
}

TEST(Replay, AStuckEngineIsADeadEnd) {
  ReplayOptions options = Aggregated();
  options.engine->strict_reference = true;  // without it such a request fails
  options.engine->enable_chunked_prefill = false;
  options.engine->max_num_batched_tokens = 64;
  EXPECT_EQ(ErrorOf(options, Requests(3)),
            "offline replay reached a dead end with 1 in-flight requests remaining");
  options.num_workers = 2;
  EXPECT_EQ(ErrorOf(options, Requests(3)),
            "offline replay reached a dead end with 3 in-flight requests remaining");
}

TEST(Replay, ARequestRecomputedForEverIsADeadEnd) {
  ReplayOptions options = Aggregated();
  options.engine->strict_reference = true;
  options.engine->block_size = 4;
  options.engine->num_gpu_blocks = 3;
  SyntheticOptions workload = Requests(1);
  workload.input_tokens = 8;
  workload.output_tokens = 8;
  workload.block_size = 4;
  EXPECT_EQ(ErrorOf(options, workload),
            "offline replay reached a dead end with 1 in-flight requests remaining");
  options.engine->strict_reference = false;
  const Ran ran = Replayed(options, workload);
  EXPECT_EQ(ran.report.failed_requests, 1U);
}

TEST(Replay, SimulatedTimeIsCapped) {
  for (ReplayOptions options : {Aggregated(), Aggregated(2), Disaggregated()}) {
    options.max_sim_time_ms = 100.0;
    const Ran ran = Replayed(options, Requests(1000));
    EXPECT_EQ(ran.report.end, ReplayEnd::kSimTimeReached);
    EXPECT_LT(ran.report.num_requests, 30U);
    EXPECT_LT(ran.report.duration_ms, 200.0);
    EXPECT_LT(ran.records.size(), ran.report.num_requests);
  }
}

TEST(Replay, TheObserverSeesProgressAndMayStop) {
  for (ReplayOptions options : {Aggregated(), Aggregated(2), Disaggregated()}) {
    // Free-running: everything happens at one moment.
    for (auto* engine : {&options.engine, &options.prefill_engine, &options.decode_engine}) {
      if (*engine) {
        (*engine)->speedup_ratio = 0.0;
      }
    }
    std::uint64_t calls = 0;
    std::uint64_t last = 0;
    ReplayObserver observer;
    observer.progress_rows = 10;
    observer.on_progress = [&](const ReplayProgress& progress) {
      EXPECT_EQ(progress.rows_total, 200U);
      EXPECT_GE(progress.rows_done, last);
      last = progress.rows_done;
      return ++calls < 4;
    };
    SyntheticOptions workload = Requests(200);
    workload.arrival_interval_ms = 0.0;
    const auto source = NewSyntheticSource(workload);
    const Result<ReplayReport> report = RunReplay(options, *source, observer);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->end, ReplayEnd::kStopped);
    EXPECT_EQ(calls, 4U);
    EXPECT_GE(last, 40U);
    EXPECT_LT(last, 100U);
  }
}

/// Rows of a source, and then an error.
class BreakingSource final : public ReplaySource {
 public:
  Status Open(ReplayOrder order) override { return inner_->Open(order); }
  Result<bool> Next(ReplayRow& row) override {
    if (++rows_ > 10) {
      return Fail(Errc::kUnavailable, "the disk is gone");
    }
    return inner_->Next(row);
  }
  Status ReadTurn(TurnToken token, ReplayRow& row) override { return inner_->ReadTurn(token, row); }
  [[nodiscard]] std::uint32_t block_size() const override { return inner_->block_size(); }
  [[nodiscard]] bool has_sessions() const override { return false; }
  [[nodiscard]] std::uint64_t rows_total() const override { return 100; }
  [[nodiscard]] std::uint64_t rows_held() const override { return 0; }

 private:
  std::unique_ptr<ReplaySource> inner_ = NewSyntheticSource(Requests(100));
  int rows_ = 0;
};

TEST(Replay, AnErrorOfTheSourceEndsTheRun) {
  for (const ReplayOptions& options : {Aggregated(), Aggregated(2), Disaggregated()}) {
    BreakingSource source;
    const Result<ReplayReport> report = RunReplay(options, source);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message, "the disk is gone");
  }
}

/// What Next says when nobody is served.
std::string ErrorOfFlow(const FlowLimits& limits) {
  SyntheticOptions requests = Requests(100);
  requests.arrival_interval_ms = 0.0;
  const auto source = NewSyntheticSource(requests);
  Workload workload(*source, std::nullopt, 1.0);
  EXPECT_TRUE(workload.Open());
  const ReplayOptions options;
  const ReplayObserver observer;
  Collector collector(SemanticsRelease::k13, {}, observer, 1, 100);
  RequestFlow flow({options, workload, collector}, limits);
  engine::Request request;
  Result<bool> there = true;
  while (there && *there) {
    there = flow.Next(0.0, request);
  }
  return there ? "" : there.error().message;
}

TEST(Replay, AWorkloadFasterThanItsEnginesEndsAtABound) {
  EXPECT_EQ(ErrorOfFlow({.requests = 7}),
            "offline replay has 7 requests with 700 prompt tokens in flight at 0.000000 ms; at "
            "most 7 and 1073741824 are held: the workload arrives faster than it is served");
  EXPECT_EQ(ErrorOfFlow({.tokens = 1050}),
            "offline replay has 10 requests with 1000 prompt tokens in flight at 0.000000 ms; at "
            "most 4194304 and 1050 are held: the workload arrives faster than it is served");
  EXPECT_EQ(ErrorOfFlow({.requests = 100, .tokens = 10000}), "") << "exactly at the bounds";
}

TEST(Replay, MemoryDoesNotGrowWithTheLengthOfTheWorkload) {
  // Places in the table of requests follow what is under way, not what was.
  SyntheticOptions workload = Requests(20000);
  workload.output_tokens = 2;
  workload.arrival_interval_ms = 20.0;
  const auto source = NewSyntheticSource(workload);
  ASSERT_TRUE(source->Open(ReplayOrder::kByTime));
  ReplayObserver observer;
  Collector collector(SemanticsRelease::k13, {}, observer, 1, 20000);
  ReplayRow row;
  std::uint64_t places = 0;
  std::vector<RequestId> live;
  while (*source->Next(row)) {
    live.push_back(collector.Arrive(row, row.timestamp_ms));
    places = std::max(places, Value(live.back()) + 1);
    if (live.size() > 7) {
      collector.Finish(live.front(), ReplayStatus::kRejected, row.timestamp_ms);
      collector.Release(live.front());
      live.erase(live.begin());
    }
    ASSERT_EQ(source->rows_held(), 0U);
  }
  EXPECT_EQ(places, 8U);
}

struct Refusal {
  const char* name;
  void (*change)(ReplayOptions&);
  const char* error;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class ReplayRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(ReplayRefusals, NameWhatIsWrong) {
  ReplayOptions options;
  GetParam().change(options);
  const Status valid = ValidateReplay(options);
  ASSERT_FALSE(valid);
  EXPECT_EQ(valid.error().code, Errc::kInvalidConfig);
  EXPECT_EQ(valid.error().message, GetParam().error);
}

std::string NameOf(const ::testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Aggregated,
    ReplayRefusals,
    ::testing::Values(
        Refusal{"WorkerType",
                [](ReplayOptions& o) { o.engine = StageEngine(WorkerType::kPrefill); },
                "trace replay only supports aggregated workers, got Prefill"},
        Refusal{"WorkerTypeClosedLoop",
                [](ReplayOptions& o) {
                  o.engine = StageEngine(WorkerType::kDecode);
                  o.replay_concurrency = 3;
                },
                "concurrency replay only supports aggregated workers, got Decode"},
        Refusal{"Ranks",
                [](ReplayOptions& o) {
                  o.engine = Engine();
                  o.engine->rank_count = 2;
                },
                "trace replay only supports data_parallel_size=1, got 2"},
        Refusal{"KvOneWorker",
                [](ReplayOptions& o) { o.router_mode = ReplayRouterMode::kKv; },
                "offline replay only supports router_mode=kv_router when num_workers > 1"},
        Refusal{"NoWorkers",
                [](ReplayOptions& o) { o.num_workers = 0; },
                "trace replay requires num_workers >= 1"},
        Refusal{"WorkersOfTheOtherKind",
                [](ReplayOptions& o) { o.num_decode_workers = 2; },
                "num_prefill_workers and num_decode_workers are only used for disagg replay; use "
                "num_workers for aggregated replay"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Stages,
    ReplayRefusals,
    ::testing::Values(
        Refusal{"OnlyPrefill",
                [](ReplayOptions& o) { o.prefill_engine = StageEngine(WorkerType::kPrefill); },
                "prefill_engine_args and decode_engine_args must be provided together"},
        Refusal{"Both",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.engine = Engine();
                },
                "extra_engine_args cannot be combined with "
                "prefill_engine_args/decode_engine_args"},
        Refusal{"WorkersOfTheOneKind",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.num_workers = 3;
                },
                "num_workers is only used for aggregated replay; use num_prefill_workers and "
                "num_decode_workers for disagg replay"},
        Refusal{"Trtllm",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.decode_engine->engine_type = EngineType::kTrtllm;
                },
                "trace replay disaggregation does not support TRT-LLM"},
        Refusal{"Mixed",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.decode_engine->engine_type = EngineType::kSglang;
                },
                "trace replay disaggregation requires matching prefill/decode engine_type, got "
                "Vllm and Sglang"},
        Refusal{"Swapped",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.prefill_engine->worker_type = WorkerType::kDecode;
                },
                "trace replay requires prefill_engine_args.worker_type=prefill, got Decode"},
        Refusal{"DecodeRanks",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.decode_engine->rank_count = 4;
                },
                "trace replay only supports decode data_parallel_size=1, got 4"},
        Refusal{"BlockSizes",
                [](ReplayOptions& o) {
                  o = Disaggregated();
                  o.decode_engine->block_size = 32;
                },
                "trace replay requires matching prefill/decode block_size, got 16 and 32"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Numbers,
    ReplayRefusals,
    ::testing::Values(Refusal{"NoConcurrency",
                              [](ReplayOptions& o) { o.replay_concurrency = 0; },
                              "concurrency replay requires max_in_flight >= 1"},
                      Refusal{
                          "Speedup",
                          [](ReplayOptions& o) { o.arrival_speedup_ratio = 0.0; },
                          "arrival_speedup_ratio must be a finite positive number, got 0.000000"},
                      Refusal{"SimTime",
                              [](ReplayOptions& o) { o.max_sim_time_ms = std::nan(""); },
                              "max_sim_time_ms must be a finite, non-negative value; got nan"},
                      Refusal{"Credit",
                              [](ReplayOptions& o) { o.router.overlap_score_credit = 1.5; },
                              "overlap_score_credit must be between 0.0 and 1.0, got 1.500000"},
                      Refusal{"ManyWorkers",
                              [](ReplayOptions& o) { o.num_workers = 70000; },
                              "num_workers must be at most 65536, got 70000"}),
    NameOf);

}  // namespace
}  // namespace understudy::mocker
