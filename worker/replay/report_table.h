// The report of an offline replay as text for a terminal.
#pragma once

#include "understudy/mocker/replay.h"
#include "worker/replay/run_info.h"

#include <string>

namespace understudy::worker {

/// Headline figures, then a table of times: a row per measure, a column per statistic. At most 122
/// columns wide for times under a million ms. `colour`: ANSI sequences for emphasis, which change
/// no text.
[[nodiscard]] std::string ReplayReportTable(const mocker::ReplayReport& report,
                                            const mocker::ReplaySla& sla,
                                            const ReplayRunInfo& info,
                                            bool colour);

/// "ttft <= 500 ms, itl <= 50 ms"; empty when no bound is set.
[[nodiscard]] std::string SlaText(const mocker::ReplaySla& sla);

/// One sentence about a run that was cut short; empty when it was not.
[[nodiscard]] std::string CutShortText(const mocker::ReplayReport& report);

}  // namespace understudy::worker
