#include "tests/unit/worker/replay/sample_report.h"
#include "worker/replay/report_json.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::json;

json Golden(const std::string& name) {
  std::ifstream in(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/" + name);
  return json::parse(in);
}

std::set<std::string> KeysOf(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.insert(key);
  }
  return keys;
}

/// What the recordings leave out, because it differs from run to run.
const std::set<std::string> kWallKeys = {
    "wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"};

std::set<std::string> ExpectedKeys(const std::string& recording) {
  auto keys = KeysOf(Golden(recording)["report"]);
  keys.insert(kWallKeys.begin(), kWallKeys.end());
  keys.insert("understudy");
  return keys;
}

TEST(ReplayReportJson, HasExactlyTheKeysOfTheReference) {
  EXPECT_EQ(KeysOf(json::parse(ReplayReportJson(SampleReport(), SampleInfo()))),
            ExpectedKeys("replay_trace_vllm_basic.json"));
}

TEST(ReplayReportJson, HasTheGoodputKeysOfTheReferenceWhenThereIsAnSla) {
  auto report = SampleReport();
  report.goodput = mocker::Goodput{10, 1.0, 2.0};
  const auto made = json::parse(ReplayReportJson(report, SampleInfo()));
  EXPECT_EQ(KeysOf(made), ExpectedKeys("replay_trace_vllm_sla.json"));
  EXPECT_EQ(made["goodput_completed_requests"], 10);
}

json Golden16(const std::string& name) {
  std::ifstream in(std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine-1.6/" + name);
  return json::parse(in);
}

TEST(ReplayReportJson, HasExactlyTheKeysOfRelease16) {
  auto report = SampleReport();
  report.release = mocker::SemanticsRelease::k16;
  report.committed_prefill_tokens = 77;
  const json golden = Golden16("replay_trace_vllm_basic.json")["report"];
  auto keys = KeysOf(golden);
  keys.insert(kWallKeys.begin(), kWallKeys.end());
  keys.insert("understudy");
  const auto made = json::parse(ReplayReportJson(report, SampleInfo()));
  EXPECT_EQ(KeysOf(made), keys);
  EXPECT_EQ(made["committed_prefill_tokens"], 77);
  EXPECT_EQ(made["num_ttft_samples"], report.ttft.count);
  for (const char* constant : {"kv_eviction_policy", "power_w", "power_coverage"}) {
    EXPECT_EQ(made[constant], golden[constant]) << constant;
  }
}

// Written as the original wrote the same request: the second one of the recording, preempted.
TEST(ReplayRecordJson, HasExactlyTheMembersOfRelease16) {
  for (const char* name : {"replay_synth_vllm_preempt.json",
                           "replay_synth_vllm_batch.json",
                           "replay_trace_vllm_offload_g2.json"}) {
    const json golden = Golden16(name)["per_request"][5];
    mocker::ReplayRecord record;
    mocker::ReplayHistory& history = record.history.emplace();
    history.requested_output_length = golden["requested_output_length"];
    history.terminal_time_ms = golden["terminal_time_ms"].get<double>();
    history.routings.push_back({});
    for (const json& admission : golden["admission_history"]) {
      history.admissions.push_back(
          {mocker::ReplayStage::kAggregated, admission["at_ms"], admission["reused_input_tokens"]});
      if (admission.contains("host_reused_input_tokens")) {
        history.admissions.back().host_tokens = admission["host_reused_input_tokens"];
      }
    }
    std::string line;
    AppendReplayRecordJson(record, line);
    const json made = json::parse(line);
    auto keys = KeysOf(golden);
    keys.insert("uuid");  // left out of the recording
    EXPECT_EQ(KeysOf(made), keys);
    for (const auto* member : {"requested_output_length",
                               "terminal_time_ms",
                               "dispatched_at_ms",
                               "routing_history",
                               "admission_history",
                               "admission_count",
                               "readmission_count",
                               "pressure_record_ordinals"}) {
      EXPECT_EQ(made[member], golden[member]) << name << " " << member;
    }
  }
}

// Source: run_mocker_trace_replay of 1.6.1 with native_host_offload and a preemption, and with
// router_mode kv_router.
TEST(ReplayRecordJson, TellsHostReuseOnceAndWhatTheRouterPassedOver) {
  mocker::ReplayRecord record;
  mocker::ReplayHistory& history = record.history.emplace();
  const auto stage = mocker::ReplayStage::kAggregated;
  history.routings.push_back({.stage = stage, .overlap_tokens = 32, .choice = {{8, 9}}});
  history.admissions = {{stage, 0.0, 12, 4}, {stage, 295.0, 8, 8}};
  std::string line;
  AppendReplayRecordJson(record, line);
  const json made = json::parse(line);
  EXPECT_EQ(made["first_admission_g1_reused_input_tokens"], 8);
  EXPECT_EQ(made["first_admission_host_reused_input_tokens"], 4);
  EXPECT_EQ(made["admission_history"][0]["g1_reused_input_tokens"], 8);
  EXPECT_EQ(made["admission_history"][0]["host_reused_input_tokens"], 4);
  EXPECT_FALSE(made["admission_history"][1].contains("g1_reused_input_tokens"));
  EXPECT_FALSE(made["admission_history"][1].contains("host_reused_input_tokens"));
  const json& routing = made["routing_history"][0];
  EXPECT_EQ(routing["reported_overlap_tokens"], 32);
  EXPECT_EQ(routing["selected_overlap_blocks"], 8);
  EXPECT_EQ(routing["best_available_overlap_blocks"], 9);
  EXPECT_EQ(routing["overlap_regret_blocks"], 1);
}

TEST(ReplayReportJson, PutsEveryStatisticUnderItsName) {
  const auto made = json::parse(ReplayReportJson(SampleReport(), SampleInfo()));
  EXPECT_EQ(made["num_requests"], 12'345);
  EXPECT_EQ(made["mean_ttft_ms"], 42.0);
  EXPECT_EQ(made["min_ttst_ms"], 6.0);
  EXPECT_EQ(made["max_itl_ms"], 140.0);
  EXPECT_EQ(made["median_tpot_ms"], 13.0 * 0.9);
  EXPECT_EQ(made["p75_e2e_latency_ms"], 840.0);
  EXPECT_EQ(made["p90_ttft_ms"], 84.0);
  EXPECT_EQ(made["p95_ttft_ms"], 126.0);
  EXPECT_EQ(made["p99_output_token_throughput_per_user"], 550.0);
  EXPECT_EQ(made["std_itl_ms"], 3.5);
}

TEST(ReplayReportJson, KeepsWhatIsOursApart) {
  auto report = SampleReport();
  report.itl.relative_error = 0.001;
  report.end = mocker::ReplayEnd::kStopped;
  const auto ours = json::parse(ReplayReportJson(report, SampleInfo()))["understudy"];
  EXPECT_EQ(ours["version"], "1.2.3");
  EXPECT_EQ(ours["seed"], 42);
  EXPECT_EQ(ours["end"], "stopped");
  EXPECT_EQ(ours["rejected_requests"], 45);
  EXPECT_EQ(ours["preemptions"], 7);
  EXPECT_EQ(ours["configuration"]["workers"], "8");
  EXPECT_EQ(ours["relative_error"]["itl_ms"], 0.001);
  EXPECT_EQ(ours["relative_error"]["ttft_ms"], 0.0);
}

TEST(ReplayReportJson, HasTheSeriesAsColumnsOfEqualLength) {
  const auto series =
      json::parse(ReplayReportJson(SampleReport(), SampleInfo()))["understudy"]["series"];
  EXPECT_EQ(series["bucket_ms"], 4096.0);
  EXPECT_EQ(series["start_ms"], json::parse("[0.0, 4096.0]"));
  EXPECT_EQ(series["ttft_p50_ms"], json::parse("[40.0, null]"));
  EXPECT_EQ(series["waiting_max"], json::parse("[9, 0]"));
  for (const auto& [name, column] : series.items()) {
    if (name != "bucket_ms") {
      EXPECT_EQ(column.size(), 2U) << name;
    }
  }
}

TEST(ReplayReportJson, SurvivesNamesThatAreNoUtf8) {
  auto info = SampleInfo();
  info.title = "\xff\xfe";
  info.command_line = "understudy replay '\xff\"\n.jsonl'";
  const auto made = json::parse(ReplayReportJson(SampleReport(), info));
  EXPECT_NE(made["understudy"]["command"].get<std::string>().find(".jsonl"), std::string::npos);
}

std::string Line(const mocker::ReplayRecord& record) {
  std::string line;
  AppendReplayRecordJson(record, line);
  return line;
}

TEST(ReplayRecordJson, IsALineWithTheKeysOfTheReference) {
  auto expected = KeysOf(Golden("replay_trace_vllm_basic.json")["per_request"][0]);
  expected.insert("uuid");  // random in the reference, so the recordings leave it out
  const auto line = Line({});
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(KeysOf(json::parse(line)), expected);
}

TEST(ReplayRecordJson, WritesAbsentTimesAsNullAndTimesAsReals) {
  mocker::ReplayRecord record;
  record.uuid = "u";
  record.arrival_time_ms = 30.0;
  record.first_admit_ms = 38.283432;
  record.last_token_ms = 1e300;
  record.itl_ms = 5.8190610000000005;
  record.input_length = 1500;
  record.reused_input_tokens = 1024;
  record.decode_worker_idx = 3;
  record.status = mocker::ReplayStatus::kRejected;
  const auto made = json::parse(Line(record));
  EXPECT_TRUE(made["arrival_time_ms"].is_number_float());
  EXPECT_EQ(made["arrival_time_ms"], 30.0);
  EXPECT_EQ(made["first_admit_ms"], 38.283432);
  EXPECT_EQ(made["last_token_ms"], 1e300);
  EXPECT_EQ(made["itl_ms"], 5.8190610000000005);
  EXPECT_TRUE(made["ttft_ms"].is_null());
  EXPECT_TRUE(made["session_id"].is_null());
  EXPECT_TRUE(made["turn_index"].is_null());
  EXPECT_TRUE(made["input_length"].is_number_integer());
  EXPECT_EQ(made["decode_worker_idx"], 3);
  EXPECT_EQ(made["terminal_status"], "rejected");
}

TEST(ReplayRecordJson, EscapesNamesOfSessionsAndRequests) {
  mocker::ReplayRecord record;
  record.session_id = "a\"b\\c\n\x01";
  record.uuid = "\xc3(";
  record.turn = 2;
  const auto made = json::parse(Line(record));
  EXPECT_EQ(made["session_id"], "a\"b\\c\n\x01");
  EXPECT_EQ(made["turn_index"], 2);
}

}  // namespace
}  // namespace understudy::worker
