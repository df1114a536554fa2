#include "tests/unit/worker/replay/sample_report.h"
#include "worker/replay/report_table.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string LineWith(const std::string& text, const std::string& begin) {
  for (const auto& line : LinesOf(text)) {
    if (line.rfind(begin, 0) == 0) {
      return line;
    }
  }
  return {};
}

std::string Without(std::string text, const std::string& what) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) {
    text.erase(at, what.size());
  }
  return text;
}

TEST(ReplayTable, NamesTheRunAndItsHeadlineFigures) {
  const auto text = ReplayReportTable(SampleReport(), {}, SampleInfo(), false);
  EXPECT_EQ(LinesOf(text).front(), "Offline replay of trace.jsonl");
  EXPECT_EQ(LineWith(text, "requests"),
            "requests      12,300 completed of 12,345, 45 rejected, 0 failed, 7 preemptions");
  EXPECT_EQ(LineWith(text, "simulated"),
            "simulated     55 min 45 s in 500.0 ms (6,690 x real time), 250,123 passes");
  EXPECT_EQ(LineWith(text, "throughput"),
            "throughput    29.50 requests/s, 1,194.50 output tok/s, 17,017.25 input tok/s");
  EXPECT_EQ(LineWith(text, "cache reuse"),
            "cache reuse   42.87 % of prompt tokens (first admission 42.00 %)");
  EXPECT_EQ(LineWith(text, "cost"), "cost          0.9292 GPU hours");
}

TEST(ReplayTable, HasARowPerMeasureAndAColumnPerStatistic) {
  const auto text = ReplayReportTable(SampleReport(), {}, SampleInfo(), false);
  std::istringstream head(LineWith(text, " "));
  std::vector<std::string> columns;
  for (std::string word; head >> word;) {
    columns.push_back(word);
  }
  EXPECT_EQ(
      columns,
      (std::vector<std::string>{"mean", "min", "p50", "p75", "p90", "p95", "p99", "max", "std"}));
  std::istringstream row(LineWith(text, "E2E"));
  std::vector<std::string> cells;
  for (std::string word; row >> word;) {
    cells.push_back(word);
  }
  EXPECT_EQ(cells,
            (std::vector<std::string>{"E2E",
                                      "ms",
                                      "560.00",
                                      "280.00",
                                      "504.00",
                                      "840.00",
                                      "1,120.00",
                                      "1,680.00",
                                      "2,800.00",
                                      "5,600.00",
                                      "140.00"}));
  for (const auto* name : {"TTFT", "TTST", "TPOT", "ITL", "per user"}) {
    EXPECT_FALSE(LineWith(text, name).empty()) << name;
  }
}

TEST(ReplayTable, AlignsItsColumns) {
  auto report = SampleReport();
  report.e2e_latency = SampleDistribution(98'765.4);
  const auto text = ReplayReportTable(report, {}, SampleInfo(), false);
  const auto size = LineWith(text, "E2E").size();
  for (const auto* name : {" ", "TTFT", "TTST", "TPOT", "ITL", "per user"}) {
    EXPECT_EQ(LineWith(text, name).size(), size) << name;
  }
  EXPECT_LE(size, 122U);
}

TEST(ReplayTable, ShowsDashesForAMeasureWithoutSamples) {
  auto report = SampleReport();
  report.itl = {};
  const auto line = LineWith(ReplayReportTable(report, {}, SampleInfo(), false), "ITL");
  EXPECT_EQ(std::count(line.begin(), line.end(), '-'), 9);
}

TEST(ReplayTable, ColoursChangeNoText) {
  auto report = SampleReport();
  report.goodput = mocker::Goodput{12'000, 28.5, 1'130.0};
  report.end = mocker::ReplayEnd::kStopped;
  mocker::ReplaySla sla;
  sla.ttft_ms = 100.0;
  const auto plain = ReplayReportTable(report, sla, SampleInfo(), false);
  auto coloured = ReplayReportTable(report, sla, SampleInfo(), true);
  EXPECT_NE(coloured, plain);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  for (const auto* code : {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"}) {
    coloured = Without(std::move(coloured), code);
  }
  EXPECT_EQ(coloured, plain);
}

TEST(ReplayTable, SaysWhatGoodputIsMeasuredAgainst) {
  auto report = SampleReport();
  report.goodput = mocker::Goodput{6'000, 14.25, 500.0};
  mocker::ReplaySla sla;
  sla.ttft_ms = 500.0;
  sla.itl_ms = 12.5;
  EXPECT_EQ(LineWith(ReplayReportTable(report, sla, SampleInfo(), false), "goodput"),
            "goodput       6,000 requests (48.60 %), 14.25 requests/s, 500.00 output tok/s within "
            "ttft <= 500 ms, itl <= 12.5 ms");
  EXPECT_TRUE(
      LineWith(ReplayReportTable(SampleReport(), {}, SampleInfo(), false), "goodput").empty());
}

TEST(ReplayTable, SaysWhenTheRunWasCutShortOrIsNotExact) {
  auto report = SampleReport();
  EXPECT_EQ(CutShortText(report), "");
  report.end = mocker::ReplayEnd::kSimTimeReached;
  report.itl.relative_error = 0.001;
  const auto text = ReplayReportTable(report, {}, SampleInfo(), false);
  EXPECT_NE(text.find("The limit of simulated time was reached"), std::string::npos);
  EXPECT_NE(text.find("within 0.1000 % of the exact values"), std::string::npos);
}

TEST(ReplayTable, NamesBothPoolsOfADisaggregatedRun) {
  auto report = SampleReport();
  report.prefill_worker_seconds = 10.0;
  report.prefill_gpus_per_worker = 2;
  EXPECT_EQ(LineWith(ReplayReportTable(report, {}, SampleInfo(), false), "cost"),
            "cost          0.9292 GPU hours: prefill 10.00 s x 2 GPU, decode 55 min 45 s x 1 GPU");
}

}  // namespace
}  // namespace understudy::worker
