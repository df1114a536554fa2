// Figures of whole runs against recordings of the reference's own replay.
#include "tests/fakes/server_process.h"
#include "tests/integration/replay/command.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::json;

const std::string kRoot = UNDERSTUDY_SOURCE_DIR;
constexpr double kToleranceMs = 1e-4;  // sums of rounded times differ in their last digits
constexpr double kToleranceRelative = 1e-9;
/// Of percentiles that 1.6 keeps in sketches with an error of 0.001 (engine-1.6.md 9).
constexpr double kToleranceSketched = 2e-3;

bool Near(const json& got, const json& expected, double relative) {
  if (!expected.is_number() || !got.is_number()) {
    return got == expected;
  }
  const double a = got.get<double>();
  const double b = expected.get<double>();
  return std::abs(a - b) <= std::max(kToleranceMs, relative * std::abs(b));
}

bool IsPercentile(const std::string& key) {
  return key.starts_with("median_") || key.starts_with("p75_") || key.starts_with("p9");
}

bool IsSketched(const std::string& key) {
  return IsPercentile(key) &&
         (key.ends_with("_itl_ms") || key.ends_with("_output_token_throughput_per_user"));
}

void ExpectFigures(const json& got, const json& expected, bool sketches = false) {
  for (const auto& [key, value] : expected.items()) {
    const double relative = sketches && IsSketched(key) ? kToleranceSketched : kToleranceRelative;
    EXPECT_TRUE(got.contains(key)) << key;
    EXPECT_TRUE(Near(got.value(key, json()), value, relative))
        << key << ": got " << got.value(key, json()) << ", expected " << value;
  }
}

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

class ReplayReports : public ::testing::Test {
 protected:
  /// The report of a run with these flags.
  json Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--quiet", "--report", Path("report.json")});
    const auto result = RunReplayCommand(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    return json::parse(ReadText(Path("report.json")), nullptr, false);
  }
  [[nodiscard]] std::string Path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }

  fakes::TempDir folder_;
};

TEST_F(ReplayReports, OfAMixedTraceAreTheReferences) {
  const auto recorded = json::parse(ReadText(kRoot + "/tests/data/traces/mixed.reports.json"));
  for (const auto& each : recorded["cases"]) {
    SCOPED_TRACE(each["name"].get<std::string>());
    std::vector<std::string> arguments = {
        kRoot + "/tests/data/traces/mixed.jsonl", "--dynamo-release", "1.3"};
    for (const auto& flag : each["flags"]) {
      arguments.push_back(flag.get<std::string>());
    }
    ExpectFigures(Run(arguments), each["report"]);
  }
}

/// Flags of ours that mean the same as the recorded call.
std::vector<std::string> FlagsOf(const json& recorded) {
  std::vector<std::string> flags;
  const std::pair<const char*, const char*> engines[] = {
      {"engine_args", "--extra-engine-args"},
      {"prefill_engine_args", "--prefill-engine-args"},
      {"decode_engine_args", "--decode-engine-args"}};
  for (const auto& [key, flag] : engines) {
    if (!recorded[key].is_null()) {
      flags.insert(flags.end(), {flag, recorded[key].dump()});
    }
  }
  for (const auto& [name, value] : recorded["call"].items()) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    flags.insert(flags.end(), {flag, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return flags;
}

/// In an order that both have: ours come by their ends, the reference's by their arrivals.
std::vector<json> Ordered(std::vector<json> requests) {
  std::sort(requests.begin(), requests.end(), [](const json& a, const json& b) {
    for (const auto* key : {"arrival_time_ms", "input_length", "output_length", "last_token_ms"}) {
      const double left = a[key].is_null() ? -1.0 : a[key].get<double>();
      const double right = b[key].is_null() ? -1.0 : b[key].get<double>();
      if (std::abs(left - right) > kToleranceMs) {
        return left < right;
      }
    }
    return false;
  });
  return requests;
}

void ExpectRequests(const std::vector<json>& got, const std::vector<json>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    auto figures = expected[i];
    // The reference does not tell the session of every run, and draws the numbers of equally good
    // workers by lot.
    for (const auto* key :
         {"session_id", "turn_index", "prefill_worker_idx", "decode_worker_idx"}) {
      figures.erase(key);
    }
    ExpectFigures(got[i], figures);
  }
}

std::vector<std::string> GoldenTraces(const std::string& vectors) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(kRoot + "/tests/vectors/" + vectors)) {
    const auto name = entry.path().filename().string();
    if (name.rfind("replay_trace_", 0) == 0) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Recorded {
  const char* release;
  const char* vectors;
  bool sketches;
};
class ReplayReportsOf : public ReplayReports, public ::testing::WithParamInterface<Recorded> {};
INSTANTIATE_TEST_SUITE_P(Releases,
                         ReplayReportsOf,
                         ::testing::Values(Recorded{"1.3", "engine", false},
                                           Recorded{"1.6", "engine-1.6", true}),
                         [](const auto& p) { return p.param.release[2] == '3' ? "R13" : "R16"; });

TEST_P(ReplayReportsOf, TheGoldenTracesAreTheReferences) {
  const auto names = GoldenTraces(GetParam().vectors);
  EXPECT_GE(names.size(), 6U);
  for (const auto& name : names) {
    SCOPED_TRACE(name);
    const auto recorded =
        json::parse(ReadText(kRoot + "/tests/vectors/" + GetParam().vectors + "/" + name));
    std::string trace;
    for (const auto& row : recorded["trace_rows"]) {
      trace += row.dump() + "\n";
    }
    WriteText(Path("trace.jsonl"), trace);
    auto arguments = FlagsOf(recorded);
    arguments.insert(arguments.end(),
                     {Path("trace.jsonl"),
                      "--requests",
                      Path("requests.jsonl"),
                      "--dynamo-release",
                      GetParam().release});
    ExpectFigures(Run(arguments), recorded["report"], GetParam().sketches);
    // Requests that a limit of time leaves under way have no line of ours.
    if (!recorded["call"].contains("max_sim_time_ms")) {
      ExpectRequests(Ordered(Lines(ReadText(Path("requests.jsonl")))),
                     Ordered(recorded["per_request"].get<std::vector<json>>()));
    }
  }
}

TEST_P(ReplayReportsOf, GoldenSyntheticLoadsAreTheReferences) {
  for (const auto* name : {"replay_synth_vllm_single.json",
                           "replay_synth_vllm_batch.json",
                           "replay_synth_vllm_preempt.json",
                           "replay_synth_vllm_concurrency4.json"}) {
    SCOPED_TRACE(name);
    const auto recorded =
        json::parse(ReadText(kRoot + "/tests/vectors/" + GetParam().vectors + "/" + name));
    auto arguments = FlagsOf(recorded);
    arguments.insert(arguments.end(), {"--dynamo-release", GetParam().release});
    ExpectFigures(Run(arguments), recorded["report"], GetParam().sketches);
  }
}

TEST_F(ReplayReports, OfARoutedRunAccountForEveryRequestAndToken) {
  const auto trace = kRoot + "/tests/data/traces/mixed.jsonl";
  const auto one = Run({trace, "--trace-block-size", "256"});
  const auto routed =
      Run({trace, "--trace-block-size", "256", "--num-workers", "4", "--router-mode", "kv"});
  EXPECT_EQ(routed["completed_requests"], 46);
  EXPECT_EQ(routed["total_output_tokens"], one["total_output_tokens"]);
  EXPECT_EQ(routed["total_input_tokens"], one["total_input_tokens"]);
  EXPECT_LT(routed["mean_ttft_ms"], one["mean_ttft_ms"]);
  EXPECT_EQ(routed["understudy"]["configuration"]["workers"], "4 of 1 GPU");
}

TEST_F(ReplayReports, AreEqualForEqualSeeds) {
  const std::vector<std::string> load = {"--request-count",
                                         "200",
                                         "--input-tokens",
                                         "512",
                                         "--output-tokens",
                                         "20",
                                         "--request-rate",
                                         "40",
                                         "--arrival-process",
                                         "poisson",
                                         "--num-workers",
                                         "3",
                                         "--router-mode",
                                         "kv",
                                         "--shared-prefix-ratio",
                                         "0.5",
                                         "--num-prefix-groups",
                                         "4",
                                         "--seed"};
  const auto with_seed = [&](const char* seed) {
    auto arguments = load;
    arguments.emplace_back(seed);
    auto report = Run(arguments);
    for (const auto* wall :
         {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}) {
      report.erase(wall);
    }
    report["understudy"].erase("command");
    return report;
  };
  const auto first = with_seed("7");
  EXPECT_EQ(first, with_seed("7"));
  EXPECT_NE(first["duration_ms"], with_seed("8")["duration_ms"]);
  EXPECT_EQ(first["understudy"]["seed"], 7);
}

TEST_F(ReplayReports, HaveASeriesThatAddsUp) {
  const auto report = Run({kRoot + "/tests/data/traces/mixed.jsonl", "--trace-block-size", "256"});
  const auto& series = report["understudy"]["series"];
  const double bucket_ms = series["bucket_ms"].get<double>();
  double tokens = 0.0;
  double completed = 0.0;
  for (std::size_t i = 0; i < series["start_ms"].size(); ++i) {
    const double left_ms =
        report["duration_ms"].get<double>() - series["start_ms"][i].get<double>();
    const double seconds = std::min(bucket_ms, left_ms) / 1000.0;  // the last one ends with the run
    tokens += series["output_tok_s"][i].get<double>() * seconds;
    completed += series["completed_rps"][i].get<double>() * seconds;
  }
  EXPECT_NEAR(tokens, report["total_output_tokens"].get<double>(), 1e-6 * tokens);
  EXPECT_NEAR(completed, 46.0, 1e-6);
}

TEST_F(ReplayReports, StopAtTheLimitOfSimulatedTime) {
  const auto report = Run({kRoot + "/tests/data/traces/mixed.jsonl",
                           "--trace-block-size",
                           "256",
                           "--max-sim-time-ms",
                           "300"});
  EXPECT_EQ(report["understudy"]["end"], "sim_time_reached");
  EXPECT_LT(report["completed_requests"], 46);
  EXPECT_GT(report["completed_requests"], 0);
}

TEST_F(ReplayReports, ComeAsAPageToo) {
  const auto report = Run({kRoot + "/tests/data/traces/mixed.jsonl",
                           "--trace-block-size",
                           "256",
                           "--html",
                           Path("page.html")});
  const auto page = ReadText(Path("page.html"));
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0U);
  EXPECT_NE(page.find("mixed.jsonl"), std::string::npos);
  EXPECT_NE(page.find("<dd>46</dd>"), std::string::npos);
  EXPECT_EQ(report["completed_requests"], 46);
}

}  // namespace
}  // namespace understudy::worker
