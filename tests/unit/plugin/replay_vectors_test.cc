// Whole runs against reports and per-request records of the original's offline replay:
// tests/vectors/engine/replay_*.json, recorded with the Python package ai-dynamo 1.3.0.post1.
#include "tests/unit/plugin/golden_case.h"
#include "tests/unit/plugin/replay_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using Json = nlohmann::json;

constexpr double kToleranceMs = 1e-4;
constexpr double kToleranceRatio = 1e-9;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void ExpectNumber(const std::string& name, double got, double want) {
  if (EndsWith(name, "_ms")) {
    EXPECT_NEAR(got, want, kToleranceMs) << name;
  } else {
    EXPECT_NEAR(got, want, kToleranceRatio * std::max(1.0, std::abs(want))) << name;
  }
}

std::vector<std::string> RecordedRuns() {
  std::vector<std::string> names;
  const std::string folder = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    if (stem.rfind("replay_", 0) == 0 && entry.path().extension() == ".json") {
      names.push_back(stem);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// By arrival, then by end: requests have no name that both sides know.
void Sort(std::vector<Json>& records) {
  std::stable_sort(records.begin(), records.end(), [](const Json& a, const Json& b) {
    const auto key = [](const Json& r) {
      return std::tuple(r["arrival_time_ms"].get<double>(),
                        r["input_length"].get<int>(),
                        r["output_length"].get<int>(),
                        r["last_token_ms"].is_null() ? 0.0 : r["last_token_ms"].get<double>());
    };
    return key(a) < key(b);
  });
}

/// The original's router breaks ties by lot, so that workers are the same but for their numbers.
class WorkerNames {
 public:
  bool Same(const Json& got, const Json& want) {
    if (got.is_null() || want.is_null()) {
      return got == want;
    }
    return names_.try_emplace(got.get<int>(), want.get<int>()).first->second == want.get<int>();
  }

 private:
  std::map<int, int> names_;
};

void ExpectRecords(std::vector<Json> got, std::vector<Json> want, bool single) {
  ASSERT_EQ(got.size(), want.size());
  Sort(got);
  Sort(want);
  WorkerNames prefill;
  WorkerNames decode;
  for (std::size_t i = 0; i < want.size(); ++i) {
    for (const auto& [name, value] : want[i].items()) {
      const Json& ours = got[i][name];
      const std::string where = "record " + std::to_string(i) + " " + name;
      if (name == "prefill_worker_idx" || name == "decode_worker_idx") {
        WorkerNames& names = name == "prefill_worker_idx" ? prefill : decode;
        // One aggregated worker has no number in the original's records.
        EXPECT_TRUE((single && ours.is_null()) || names.Same(ours, value)) << where;
      } else if ((name == "session_id" || name == "turn_index") && single) {
        // The original leaves them out when there is one aggregated worker.
        EXPECT_TRUE(value.is_null()) << where;
      } else if (value.is_number() && ours.is_number()) {
        ExpectNumber(where, ours.get<double>(), value.get<double>());
      } else {
        EXPECT_EQ(ours, value) << where;
      }
    }
  }
}

class ReplayVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(ReplayVectors, ReportAndRecordsAreTheOriginals) {
  const Json golden = LoadGoldenCase(GetParam());
  const ReplayOptions options = GoldenReplayOptions(golden);
  GoldenSource workload(golden);
  std::vector<Json> records;
  ReplayObserver observer;
  observer.on_record = [&](const ReplayRecord& record) { records.push_back(RecordJson(record)); };

  const Result<ReplayReport> report = RunReplay(options, workload.source(), observer);

  ASSERT_TRUE(report) << report.error().message;
  const std::map<std::string, double> got = ReportNumbers(*report);
  EXPECT_EQ(got.size(), golden["report"].size());
  for (const auto& [name, want] : golden["report"].items()) {
    ASSERT_TRUE(got.count(name) == 1) << name;
    ExpectNumber(name, got.at(name), want.get<double>());
  }
  if (golden.contains("per_request")) {
    const bool single = !options.prefill_engine && options.num_workers == 1;
    ExpectRecords(records, golden["per_request"].get<std::vector<Json>>(), single);
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         ReplayVectors,
                         ::testing::ValuesIn(RecordedRuns()),
                         [](const auto& p) { return p.param.substr(7); });

TEST(ReplayVectors, AllRecordedRunsAreThere) {
  EXPECT_GE(RecordedRuns().size(), 37U);
}

}  // namespace
}  // namespace understudy::mocker
