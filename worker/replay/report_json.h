// The reports of an offline replay as JSON.
#pragma once

#include "understudy/mocker/replay.h"
#include "worker/replay/run_info.h"

#include <string>

namespace understudy::worker {

/// The keys of the reference's report, and under "understudy" what is ours: version, seed, command
/// line, configuration, how the run ended, counts that the reference has not, and the series over
/// simulated time (one array per figure, null where a bucket has no sample). Indented, with a final
/// line break. Source: dynamo-mocker 1.3.0 report of run_mocker_trace_replay (engine.md 9).
[[nodiscard]] std::string ReplayReportJson(const mocker::ReplayReport& report,
                                           const ReplayRunInfo& info);

/// One request as a line of JSON with the reference's keys, line break included, appended to
/// `out`. Source: dynamo-mocker 1.3.0 report_jsonl_path.
void AppendReplayRecordJson(const mocker::ReplayRecord& record, std::string& out);

/// "workload_done", "sim_time_reached" or "stopped".
[[nodiscard]] const char* ReplayEndName(mocker::ReplayEnd end);

}  // namespace understudy::worker
