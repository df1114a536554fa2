#include "worker/replay/report_html.h"

#include "worker/replay/number_text.h"
#include "worker/replay/page_assets.h"
#include "worker/replay/report_json.h"
#include "worker/replay/report_table.h"

#include <array>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

constexpr std::size_t kCurvePointsMax = 200;

struct Tile {
  std::string label;
  std::string value;
  std::string unit;
  std::string hint;
};

std::string TileHtml(const Tile& tile) {
  std::string html = "<div><dt>" + EscapeHtml(tile.label) + "</dt><dd>" + EscapeHtml(tile.value);
  if (!tile.unit.empty()) {
    html += " <small>" + EscapeHtml(tile.unit) + "</small>";
  }
  html += "</dd>";
  if (!tile.hint.empty()) {
    html += "<div class=\"hint\">" + EscapeHtml(tile.hint) + "</div>";
  }
  return html + "</div>\n";
}

Tile TimeTile(const char* label, const mocker::Distribution& values) {
  if (values.count == 0) {
    return {label, "-", "", "no sample"};
  }
  return {label, Short(values.median), "ms", "p99 " + Short(values.p99) + " ms"};
}

std::string RequestsHint(const mocker::ReplayReport& r) {
  std::string hint = "of " + Grouped(r.num_requests);
  if (r.rejected_requests > 0) {
    hint += ", " + Grouped(r.rejected_requests) + " rejected";
  }
  if (r.failed_requests > 0) {
    hint += ", " + Grouped(r.failed_requests) + " failed";
  }
  return hint;
}

std::string TilesHtml(const mocker::ReplayReport& r, const mocker::ReplaySla& sla) {
  std::vector<Tile> tiles{
      {"Completed requests", Grouped(r.completed_requests), "", RequestsHint(r)},
      {"Simulated time", TimeSpan(r.duration_ms), "", "computed in " + TimeSpan(r.wall_time_ms)},
      {"Output throughput",
       Short(r.output_throughput_tok_s),
       "tok/s",
       Short(r.request_throughput_rps) + " requests/s"},
      {"Prompt throughput",
       Short(r.input_throughput_tok_s),
       "tok/s",
       Grouped(r.total_input_tokens) + " tokens"},
      TimeTile("Time to first token, p50", r.ttft),
      TimeTile("Inter-token latency, p50", r.itl),
      TimeTile("End to end, p50", r.e2e_latency),
      {"Cache reuse",
       Percent(r.prefix_cache_reused_ratio),
       "",
       "first admission " + Percent(r.first_admission_prefix_cache_reused_ratio)},
      {"GPU hours", Short(r.gpu_hours), "", Grouped(r.preemptions) + " preemptions"},
  };
  if (r.goodput) {
    tiles.push_back({"Goodput",
                     Short(r.goodput->request_throughput_rps),
                     "requests/s",
                     Grouped(r.goodput->completed_requests) + " requests within " + SlaText(sla)});
  }
  std::string html = "<dl class=\"tiles\">\n";
  for (const auto& tile : tiles) {
    html += TileHtml(tile);
  }
  return html + "</dl>\n";
}

struct Figure {
  const char* id;
  const char* title;
  std::string hint;
};

std::string FiguresHtml(const std::vector<Figure>& figures, const char* classes) {
  std::string html = std::string("<div class=\"") + classes + "\">\n";
  for (const auto& figure : figures) {
    html += std::string("<figure id=\"") + figure.id + "\"><figcaption>" + figure.title +
            " <small>" + figure.hint +
            "</small></figcaption><div class=\"legend\"></div><div class=\"plot\"></div>"
            "</figure>\n";
  }
  return html + "</div>\n";
}

std::string PlotsHtml(const mocker::ReplaySeries& series) {
  if (series.buckets.empty()) {
    return {};
  }
  return "<h2>Over simulated time</h2>\n" +
         FiguresHtml({{"ttft", "Time to first token", "by the time of the token"},
                      {"itl", "Inter-token latency", "every gap between two tokens"},
                      {"queue", "Requests running and waiting", "all engines, and the router"},
                      {"rate", "Request rate", ""},
                      {"output", "Output throughput", "tokens generated"},
                      {"input", "Prompt throughput", "tokens admitted, cached ones too"},
                      {"cache", "Prefix cache hits", "of the prompts admitted"},
                      {"blocks", "KV blocks in use", "mean of all workers"}},
                     "plots") +
         "<p class=\"hint\"><span id=\"spans\"></span> Percentiles over time are within " +
         Percent(mocker::kBucketError) + ".</p>\n";
}

std::string PercentilesText(const mocker::Distribution& values) {
  return "p50 " + Short(values.median) + ", p90 " + Short(values.p90) + ", p99 " +
         Short(values.p99) + " ms";
}

std::string CurvesHtml(const ReplayCurves& curves, const mocker::ReplayReport& r) {
  std::vector<Figure> figures;
  if (curves.ttft.count() > 0) {
    figures.push_back({"ttft-curve", "Time to first token", PercentilesText(r.ttft)});
  }
  if (curves.tpot.count() > 0) {
    figures.push_back({"tpot-curve", "Inter-token latency, mean", PercentilesText(r.tpot)});
  }
  if (curves.e2e.count() > 0) {
    figures.push_back({"e2e-curve", "End-to-end latency", PercentilesText(r.e2e_latency)});
  }
  return figures.empty()
             ? ""
             : "<h2>Distributions over requests</h2>\n" + FiguresHtml(figures, "plots small");
}

std::string TableHtml(const mocker::ReplayReport& r) {
  struct Row {
    const char* name;
    const mocker::Distribution& values;
  };
  const std::array rows = {
      Row{"Time to first token (TTFT), ms", r.ttft},
      Row{"Time to second token (TTST), ms", r.ttst},
      Row{"Time per output token (TPOT), ms", r.tpot},
      Row{"Inter-token latency (ITL), ms", r.itl},
      Row{"End-to-end latency, ms", r.e2e_latency},
      Row{"Output per user, tok/s", r.output_token_throughput_per_user},
  };
  std::string html =
      "<h2>Statistics</h2>\n<div class=\"scroll\"><table><thead><tr><th></th><th>mean</th>"
      "<th>min</th><th>p50</th><th>p75</th><th>p90</th><th>p95</th><th>p99</th><th>max</th>"
      "<th>std</th></tr></thead><tbody>\n";
  for (const auto& [name, v] : rows) {
    html += std::string("<tr><td>") + name + "</td>";
    for (const double value : {v.mean, v.min, v.median, v.p75, v.p90, v.p95, v.p99, v.max, v.std}) {
      html += "<td>" + (v.count == 0 ? std::string("-") : Grouped(value, 2)) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string SettingsHtml(const ReplayRunInfo& info) {
  std::string html = "<h2>Configuration</h2>\n<table class=\"settings\"><tbody>\n";
  for (const auto& [name, value] : info.configuration) {
    html += "<tr><th>" + EscapeHtml(name) + "</th><td>" + EscapeHtml(value) + "</td></tr>\n";
  }
  return html + "</tbody></table>\n<h2>Command</h2>\n<pre>" + EscapeHtml(info.command_line) +
         "</pre>\n";
}

nlohmann::json CurveJson(const SampleCurve& curve) {
  auto json = nlohmann::json::array();
  for (const auto& point : curve.Points(kCurvePointsMax)) {
    json.push_back({point.value, point.share});
  }
  return json;
}

/// JSON that may stand inside a script element: no text of it can end the element or begin another.
std::string DataJson(const mocker::ReplayReport& report,
                     const ReplayCurves& curves,
                     const ReplayRunInfo& info) {
  const auto whole = nlohmann::json::parse(ReplayReportJson(report, info));
  const nlohmann::json data{{"end_ms", report.duration_ms},
                            {"requests", report.num_requests},
                            {"series", whole["understudy"]["series"]},
                            {"curves",
                             {{"ttft", CurveJson(curves.ttft)},
                              {"tpot", CurveJson(curves.tpot)},
                              {"e2e", CurveJson(curves.e2e)}}}};
  std::string safe;
  for (const char c : data.dump()) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

void ReplayCurves::Add(const mocker::ReplayRecord& record) {
  if (record.ttft_ms) {
    ttft.Add(*record.ttft_ms);
  }
  if (record.itl_ms) {
    tpot.Add(*record.itl_ms);
  }
  if (record.e2e_latency_ms) {
    e2e.Add(*record.e2e_latency_ms);
  }
}

std::string EscapeHtml(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string ReplayReportHtml(const mocker::ReplayReport& report,
                             const mocker::ReplaySla& sla,
                             const ReplayCurves& curves,
                             const ReplayRunInfo& info) {
  const auto title = EscapeHtml(info.title);
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>" +
      title + "</title>\n<style>\n" + kReportCss + "</style>\n</head>\n<body>\n<h1>" + title +
      "</h1>\n<p class=\"sub\">Offline replay by understudy " + EscapeHtml(info.version) +
      ", seed " + std::to_string(info.seed) + "</p>\n";
  if (const auto note = CutShortText(report); !note.empty()) {
    html += "<p class=\"note\">" + EscapeHtml(note) + "</p>\n";
  }
  html += TilesHtml(report, sla) + PlotsHtml(report.series) + CurvesHtml(curves, report) +
          TableHtml(report) + SettingsHtml(info);
  html += "<noscript><p class=\"note\">The plots need JavaScript.</p></noscript>\n";
  html += "<script type=\"application/json\" id=\"data\">" + DataJson(report, curves, info) +
          "</script>\n<script>\n" + kReportJs + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace understudy::worker
