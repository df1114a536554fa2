// Whole runs against reports and per-request records of the original's offline replay:
// tests/vectors/engine/replay_*.json, recorded with the Python package ai-dynamo 1.3.0.post1, and
// tests/vectors/engine-1.6/replay_*.json, recorded with 1.6.1.
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

/// Of percentiles that the original of 1.6 reads from a sketch.
constexpr double kSketchTolerance = 0.002;

bool IsSketched(const std::string& name) {
  const bool percentile = name.rfind("median_", 0) == 0 || name.rfind("p", 0) == 0;
  return percentile && (EndsWith(name, "_itl_ms") || EndsWith(name, "_per_user"));
}

void ExpectNumber(const std::string& name, double got, double want) {
  if (EndsWith(name, "_ms")) {
    EXPECT_NEAR(got, want, kToleranceMs) << name;
  } else {
    EXPECT_NEAR(got, want, kToleranceRatio * std::max(1.0, std::abs(want))) << name;
  }
}

std::vector<std::string> RecordedRuns(const std::string& subfolder) {
  std::vector<std::string> names;
  const std::string folder = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/" + subfolder;
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

void ExpectValue(const std::string& name, const Json& got, const Json& want) {
  if (want.is_number() && got.is_number()) {
    ExpectNumber(name, got.get<double>(), want.get<double>());
  } else if (want.is_structured() && got.type() == want.type() && got.size() == want.size()) {
    const Json flat_got = got.flatten();
    const Json flat_want = want.flatten();
    for (const auto& [place, value] : flat_want.items()) {
      if (value.is_structured() || !flat_got.contains(place)) {
        EXPECT_EQ(got, want) << name;
        return;
      }
      ExpectValue(name + place, flat_got[place], value);
    }
  } else {
    EXPECT_EQ(got, want) << name;
  }
}

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
      } else {
        ExpectValue(where, ours, value);
      }
    }
  }
}

struct ReplayedCase {
  Result<ReplayReport> report;
  std::vector<Json> records;
};

ReplayedCase RunCase(const Json& golden, SemanticsRelease release) {
  const ReplayOptions options = GoldenReplayOptions(golden, release);
  GoldenSource workload(golden, release);
  std::vector<Json> records;
  ReplayObserver observer;
  observer.on_record = [&](const ReplayRecord& record) { records.push_back(RecordJson(record)); };
  auto report = RunReplay(options, workload.source(), observer);
  return {std::move(report), std::move(records)};
}

class ReplayVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(ReplayVectors, ReportAndRecordsAreTheOriginals) {
  const Json golden = LoadGoldenCase(GetParam());
  const ReplayedCase run = RunCase(golden, SemanticsRelease::k13);

  ASSERT_TRUE(run.report) << run.report.error().message;
  const std::map<std::string, double> got = ReportNumbers(*run.report);
  EXPECT_EQ(got.size(), golden["report"].size());
  for (const auto& [name, want] : golden["report"].items()) {
    ASSERT_TRUE(got.count(name) == 1) << name;
    ExpectNumber(name, got.at(name), want.get<double>());
  }
  if (golden.contains("per_request")) {
    const bool single =
        golden["prefill_engine_args"].is_null() && golden["call"].value("num_workers", 1) == 1;
    ExpectRecords(run.records, golden["per_request"].get<std::vector<Json>>(), single);
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         ReplayVectors,
                         ::testing::ValuesIn(RecordedRuns("engine")),
                         [](const auto& p) { return p.param.substr(7); });

/// What the original says and ours does not, or the other way round: constants, and what follows
/// from other members.
Json Comparable(Json record) {
  record.erase("dispatched_at_ms");
  record.erase("pressure_record_ordinals");
  const Json first =
      record["admission_history"].empty() ? Json::object() : record["admission_history"][0];
  for (const std::string name : {"g1_reused_input_tokens", "host_reused_input_tokens"}) {
    EXPECT_EQ(record.value("first_admission_" + name, Json()), first.value(name, Json()));
    record.erase("first_admission_" + name);
  }
  EXPECT_EQ(record["admission_count"], record["admission_history"].size());
  std::size_t again = 0;
  for (Json& admission : record["admission_history"]) {
    again += admission["is_readmission"].get<bool>() ? 1U : 0U;
    for (const char* name : {"admission_ordinal", "pool_admission_ordinal", "is_readmission"}) {
      admission.erase(name);
    }
  }
  EXPECT_EQ(record["readmission_count"], again);
  record.erase("admission_count");
  record.erase("readmission_count");
  for (Json& routing : record["routing_history"]) {
    const Json all = routing;
    routing = Json::object();
    for (const char* name : {"pool",
                             "outcome",
                             "logical_worker_id",
                             "scheduler_id",
                             "dp_rank",
                             "reported_overlap_tokens"}) {
      routing[name] = all[name];
    }
  }
  return record;
}

class Replay16Vectors : public ::testing::TestWithParam<std::string> {};

TEST_P(Replay16Vectors, ReportAndRecordsAreTheOriginals) {
  const Json golden = LoadGoldenCase(GetParam(), "engine-1.6");
  const ReplayedCase run = RunCase(golden, SemanticsRelease::k16);

  if (golden.contains("error")) {
    ASSERT_FALSE(run.report);
    EXPECT_EQ(run.report.error().message, golden["error"].get<std::string>());
    return;
  }
  ASSERT_TRUE(run.report) << run.report.error().message;
  std::map<std::string, double> got = ReportNumbers(*run.report);
  for (const auto& [name, want] : golden["report"].items()) {
    if (!want.is_number()) {  // words and what is not modelled; the JSON report is tested for them
      continue;
    }
    ASSERT_TRUE(got.count(name) == 1) << name;
    if (IsSketched(name)) {
      EXPECT_NEAR(got.at(name), want.get<double>(), kSketchTolerance * want.get<double>()) << name;
    } else {
      ExpectNumber(name, got.at(name), want.get<double>());
    }
    got.erase(name);
  }
  EXPECT_TRUE(got.empty()) << got.begin()->first;
  std::vector<Json> want;
  for (const Json& record : golden["per_request"]) {
    want.push_back(Comparable(record));
  }
  ExpectRecords(run.records, want, /*single=*/false);
}

INSTANTIATE_TEST_SUITE_P(Recorded,
                         Replay16Vectors,
                         ::testing::ValuesIn(RecordedRuns("engine-1.6")),
                         [](const auto& p) { return p.param.substr(7); });

TEST(ReplayVectors, AllRecordedRunsAreThere) {
  EXPECT_GE(RecordedRuns("engine").size(), 37U);
  EXPECT_EQ(RecordedRuns("engine-1.6").size(), 51U);
}

}  // namespace
}  // namespace understudy::mocker
