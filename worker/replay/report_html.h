// The report of an offline replay as one page that needs nothing else: style, script and data are
// in it.
#pragma once

#include "understudy/mocker/replay.h"
#include "worker/replay/run_info.h"
#include "worker/replay/sample_curve.h"

#include <string>

namespace understudy::worker {

/// Shapes of distributions over all requests, ms; collected record by record.
struct ReplayCurves {
  SampleCurve ttft;
  SampleCurve tpot;  ///< mean time between tokens, of each request
  SampleCurve e2e;

  void Add(const mocker::ReplayRecord& record);
};

/// Headline figures and tables are plain HTML; plots are drawn by the page's own script from the
/// JSON in its element "data" ("end_ms", "requests", "series" as in the JSON report, "curves":
/// {name: [[ms, share]]}).
/// Texts of the run (names, paths, options) are escaped.
[[nodiscard]] std::string ReplayReportHtml(const mocker::ReplayReport& report,
                                           const mocker::ReplaySla& sla,
                                           const ReplayCurves& curves,
                                           const ReplayRunInfo& info);

/// `text` as HTML text or attribute value.
[[nodiscard]] std::string EscapeHtml(const std::string& text);

}  // namespace understudy::worker
