#include "tests/unit/worker/replay/sample_report.h"
#include "worker/replay/report_html.h"

#include <algorithm>
#include <regex>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

ReplayCurves SampleCurves() {
  ReplayCurves curves;
  for (int i = 1; i <= 100; ++i) {
    mocker::ReplayRecord record;
    record.ttft_ms = i;
    record.itl_ms = 5.0;
    record.e2e_latency_ms = 10.0 * i;
    curves.Add(record);
  }
  return curves;
}

std::string Page(const ReplayRunInfo& info) {
  return ReplayReportHtml(SampleReport(), {}, SampleCurves(), info);
}

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) {
    return {};
  }
  const auto start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

nlohmann::json DataOf(const std::string& page) {
  return nlohmann::json::parse(
      Between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

TEST(ReplayPage, NeedsNothingFromElsewhere) {
  const auto page = Page(SampleInfo());
  static const std::regex kReference("(src|href)\\s*=|@import|url\\(|fetch\\(|import\\s*\\(");
  EXPECT_FALSE(std::regex_search(page, kReference));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  // The one address is the name of the SVG namespace.
  EXPECT_EQ(Count(page, "http"),
            Count(page, "http://www.w3.org/2000/svg") + Count(page, "http-equiv"));
}

TEST(ReplayPage, IsForPhonesAndForDarkScreens) {
  const auto page = Page(SampleInfo());
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0U);
  EXPECT_NE(page.find("name=\"viewport\""), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(ReplayPage, OpensAndClosesItsElements) {
  const auto page = Page(SampleInfo());
  for (const auto* name : {"html",
                           "head",
                           "body",
                           "figure",
                           "table",
                           "dl",
                           "script",
                           "style",
                           "figcaption",
                           "tr",
                           "h2",
                           "title",
                           "pre"}) {
    const std::regex open(std::string("<") + name + "[ >]");
    const auto opened =
        std::distance(std::sregex_iterator(page.begin(), page.end(), open), std::sregex_iterator());
    EXPECT_EQ(static_cast<std::size_t>(opened), Count(page, std::string("</") + name + ">"))
        << name;
    EXPECT_GT(opened, 0) << name;
  }
}

TEST(ReplayPage, HasEveryPlotAndItsData) {
  const auto page = Page(SampleInfo());
  for (const auto* id : {"ttft",
                         "itl",
                         "queue",
                         "rate",
                         "output",
                         "input",
                         "cache",
                         "blocks",
                         "ttft-curve",
                         "tpot-curve",
                         "e2e-curve"}) {
    EXPECT_EQ(Count(page, std::string("<figure id=\"") + id + "\">"), 1U) << id;
  }
  const auto data = DataOf(page);
  EXPECT_EQ(data["series"]["start_ms"].size(), 2U);
  EXPECT_EQ(data["series"]["ttft_p99_ms"][0], 80.0);
  EXPECT_EQ(data["curves"]["e2e"].back(), nlohmann::json::parse("[1000.0, 1.0]"));
  EXPECT_EQ(data["curves"]["tpot"].size(), 1U);
}

TEST(ReplayPage, LeavesOutPlotsWithoutData) {
  auto report = SampleReport();
  report.series.buckets.clear();
  const auto page = ReplayReportHtml(report, {}, ReplayCurves(), SampleInfo());
  EXPECT_EQ(Count(page, "<figure"), 0U);
  EXPECT_TRUE(DataOf(page)["curves"]["ttft"].empty());
}

TEST(ReplayPage, ShowsHeadlinesConfigurationAndCommand) {
  auto report = SampleReport();
  report.goodput = mocker::Goodput{6'000, 14.25, 500.0};
  report.end = mocker::ReplayEnd::kStopped;
  mocker::ReplaySla sla;
  sla.e2e_ms = 1000.0;
  const auto page = ReplayReportHtml(report, sla, SampleCurves(), SampleInfo());
  EXPECT_NE(page.find("<dt>Completed requests</dt><dd>12,300</dd>"), std::string::npos);
  EXPECT_NE(page.find("6,000 requests within e2e &lt;= 1000 ms"), std::string::npos);
  EXPECT_NE(page.find("<th>workers</th><td>8</td>"), std::string::npos);
  EXPECT_NE(page.find("<pre>understudy replay trace.jsonl</pre>"), std::string::npos);
  EXPECT_NE(page.find("The run was interrupted"), std::string::npos);
}

TEST(ReplayPage, EscapesHostileNames) {
  auto info = SampleInfo();
  const std::string hostile = "</script></title><img onerror=alert(1)>&\"'<!--";
  info.title = hostile;
  info.command_line = "understudy replay " + hostile;
  info.version = hostile;
  info.configuration = {{hostile, hostile}};
  const auto page = Page(info);
  EXPECT_EQ(Count(page, "<img"), 0U);
  EXPECT_EQ(Count(page, "<!--"), 0U);
  EXPECT_EQ(Count(page, "</script>"), 2U);
  EXPECT_EQ(Count(page, "</title>"), 1U);
  EXPECT_NE(page.find("&lt;img onerror=alert(1)&gt;&amp;&quot;&#39;&lt;!--"), std::string::npos);
  EXPECT_EQ(DataOf(page)["series"]["start_ms"].size(), 2U);
}

TEST(ReplayPage, EscapesAllThatMeansSomethingInHtml) {
  EXPECT_EQ(EscapeHtml("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(EscapeHtml("plain \xc3\xa4"), "plain \xc3\xa4");
}

}  // namespace
}  // namespace understudy::worker
