// Whole runs against reports of the original's offline replay:
// tests/vectors/engine/replay_*_vllm_*.json, recorded with the Python package
// ai-dynamo 1.3.0.post1.
#include "tests/unit/plugin/golden_case.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

constexpr double kToleranceMs = 1e-4;
constexpr double kNsPerMs = 1e6;
/// The longest recorded run takes a few hundred passes a request.
constexpr int kPassesMax = 100000;

struct Arrival {
  double at_ms = 0.0;
  engine::Request request;
};

std::vector<Arrival> SyntheticArrivals(const Json& call) {
  std::vector<Arrival> arrivals(call["request_count"].get<std::size_t>());
  std::uint32_t token = 1;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    arrivals[i].at_ms = static_cast<double>(i) * call.value("arrival_interval_ms", 1.0);
    engine::Request& request = arrivals[i].request;
    request.id = RequestId{i};
    request.output_tokens_max = call["output_tokens"];
    request.prompt.resize(call["input_tokens"].get<std::size_t>());
    std::iota(request.prompt.begin(), request.prompt.end(), token);
    token += static_cast<std::uint32_t>(request.prompt.size());
  }
  return arrivals;
}

std::vector<Arrival> TraceArrivals(const Json& golden) {
  std::vector<Arrival> arrivals;
  const auto block = golden["call"]["trace_block_size"].get<std::size_t>();
  for (const Json& row : golden["trace_rows"]) {
    Arrival arrival;
    arrival.at_ms = row["timestamp"];
    arrival.request.id = RequestId{arrivals.size()};
    arrival.request.output_tokens_max = row["output_length"];
    for (const Json& hash : row["hash_ids"]) {
      arrival.request.prompt.insert(arrival.request.prompt.end(), block, hash.get<std::uint32_t>());
    }
    arrival.request.prompt.resize(
        std::min(arrival.request.prompt.size(), row["input_length"].get<std::size_t>()));
    arrivals.push_back(std::move(arrival));
  }
  std::stable_sort(arrivals.begin(), arrivals.end(), [](const auto& a, const auto& b) {
    return a.at_ms < b.at_ms;
  });
  return arrivals;
}

struct Report {
  std::size_t completed = 0;
  std::uint64_t tokens = 0;
  double duration_ms = 0.0;
  double mean_ttft_ms = 0.0;
  double mean_e2e_ms = 0.0;
};

/// A virtual clock: passes back to back, idle time skipped.
class Replay {
 public:
  Replay(GoldenRank& rank, std::vector<Arrival> arrivals, std::size_t concurrency)
      : scheduler_(rank.scheduler()),
        pending_(std::make_move_iterator(arrivals.begin()),
                 std::make_move_iterator(arrivals.end())),
        concurrency_(concurrency) {}

  Report Run() {
    int passes = 0;
    while ((!pending_.empty() || scheduler_.HasWork()) && passes < kPassesMax) {
      Enqueue();
      if (!scheduler_.HasWork()) {
        now_ms_ = pending_.front().at_ms;
        continue;
      }
      scheduler_.RunPass(output_);
      EXPECT_EQ(scheduler_.CheckConsistency(), "");
      now_ms_ += static_cast<double>(output_.duration().count()) / kNsPerMs;
      Record();
      ++passes;
    }
    EXPECT_LT(passes, kPassesMax);
    return Summary();
  }

 private:
  struct Times {
    double arrival = 0.0;
    double first = -1.0;
    double last = -1.0;
  };

  void Enqueue() {
    const auto may = [this] {
      const engine::Load load = scheduler_.load();
      return concurrency_ == 0 ? pending_.front().at_ms <= now_ms_
                               : load.requests_running + load.requests_waiting < concurrency_;
    };
    while (!pending_.empty() && may()) {
      Arrival arrival = std::move(pending_.front());
      pending_.pop_front();
      times_[arrival.request.id].arrival = concurrency_ == 0 ? arrival.at_ms : now_ms_;
      scheduler_.Submit(std::move(arrival.request));
    }
  }

  void Record() {
    for (const engine::Output& out : output_.outputs) {
      if (out.kind == engine::OutputKind::kRejected || out.kind == engine::OutputKind::kFailed) {
        continue;
      }
      Times& times = times_[out.id];
      times.first = times.first < 0.0 ? now_ms_ : times.first;
      times.last = now_ms_;
      ++tokens_;
    }
  }

  Report Summary() const {
    Report report;
    report.tokens = tokens_;
    for (const auto& [id, times] : times_) {
      if (times.first < 0.0) {
        continue;
      }
      ++report.completed;
      report.duration_ms = std::max(report.duration_ms, times.last);
      report.mean_ttft_ms += times.first - times.arrival;
      report.mean_e2e_ms += times.last - times.arrival;
    }
    report.mean_ttft_ms /= static_cast<double>(report.completed);
    report.mean_e2e_ms /= static_cast<double>(report.completed);
    return report;
  }

  RankScheduler& scheduler_;
  std::deque<Arrival> pending_;
  std::size_t concurrency_;
  double now_ms_ = 0.0;
  std::uint64_t tokens_ = 0;
  PassOutput output_;
  std::map<RequestId, Times> times_;
};

class ReplayVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(ReplayVectors, RunTakesAsLongAsTheOriginals) {
  const Json golden = LoadGoldenCase("replay_" + std::string(GetParam()));
  const Json& call = golden["call"];
  // speedup_ratio 0 means "undivided" in the original; ours is free-running, see ScaledTime.
  GoldenRank rank(golden["engine_args"], /*strict_reference=*/true);
  Replay replay(rank,
                golden.contains("trace_rows") ? TraceArrivals(golden) : SyntheticArrivals(call),
                call.value("replay_concurrency", std::size_t{0}));

  const Report report = replay.Run();

  const Json& want = golden["report"];
  EXPECT_EQ(report.completed, want["completed_requests"]);
  EXPECT_EQ(report.tokens, want["total_output_tokens"]);
  EXPECT_NEAR(report.duration_ms, want["duration_ms"], kToleranceMs);
  EXPECT_NEAR(report.mean_ttft_ms, want["mean_ttft_ms"], kToleranceMs);
  EXPECT_NEAR(report.mean_e2e_ms, want["mean_e2e_latency_ms"], kToleranceMs);
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         ReplayVectors,
                         ::testing::Values("synth_vllm_batch",
                                           "synth_vllm_chunk",
                                           "synth_vllm_concurrency4",
                                           "synth_vllm_decode_speedup4",
                                           "synth_vllm_fifo_preempt",
                                           "synth_vllm_maxseqs2",
                                           "synth_vllm_nochunk",
                                           "synth_vllm_preempt",
                                           "synth_vllm_prefix_pressure",
                                           "synth_vllm_single",
                                           "synth_vllm_speedup0",
                                           "synth_vllm_speedup1",
                                           "synth_vllm_speedup10",
                                           "trace_vllm_basic",
                                           "trace_vllm_nocache",
                                           "trace_vllm_offload_off",
                                           "trace_vllm_reject",
                                           "trace_vllm_sla"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace understudy::mocker
