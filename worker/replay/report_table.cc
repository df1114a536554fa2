#include "worker/replay/report_table.h"

#include "worker/replay/number_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace understudy::worker {
namespace {

constexpr std::size_t kLabelWidth = 14;
constexpr std::size_t kCellWidthMin = 7;  // "9999.99"

enum class Emphasis { kNone, kBold, kFaint, kGood, kBad };

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  [[nodiscard]] std::string operator()(const std::string& text, Emphasis emphasis) const {
    if (!colour_ || emphasis == Emphasis::kNone) {
      return text;
    }
    static constexpr std::array kCodes = {"", "1", "2", "32", "31"};
    return std::string("\x1b[") + kCodes[static_cast<std::size_t>(emphasis)] + "m" + text +
           "\x1b[0m";
  }

 private:
  bool colour_;
};

std::string Left(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string Right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

class Headline {
 public:
  Headline(const Painter& paint, std::string& out) : paint_(paint), out_(out) {}
  void operator()(const std::string& label, const std::string& text) const {
    out_ += paint_(Left(label, kLabelWidth), Emphasis::kFaint) + text + "\n";
  }

 private:
  const Painter& paint_;
  std::string& out_;
};

std::string RequestsText(const mocker::ReplayReport& r, const Painter& paint) {
  const auto count = [&](std::uint64_t value, const char* what) {
    return paint(Grouped(value) + " " + what, value > 0 ? Emphasis::kBad : Emphasis::kNone);
  };
  return Grouped(r.completed_requests) + " completed of " + Grouped(r.num_requests) + ", " +
         count(r.rejected_requests, "rejected") + ", " + count(r.failed_requests, "failed") + ", " +
         Grouped(r.preemptions) + " preemptions";
}

std::string SimulatedText(const mocker::ReplayReport& r) {
  std::string text = TimeSpan(r.duration_ms) + " in " + TimeSpan(r.wall_time_ms);
  if (r.wall_time_ms > 0) {
    text += " (" + Short(r.duration_ms / r.wall_time_ms) + " x real time)";
  }
  return text + ", " + Grouped(r.passes) + " passes";
}

std::string GpuText(const mocker::ReplayReport& r) {
  std::string text = Short(r.gpu_hours) + " GPU hours";
  if (r.prefill_worker_seconds > 0) {
    text += ": prefill " + TimeSpan(r.prefill_worker_seconds * 1e3) + " x " +
            std::to_string(r.prefill_gpus_per_worker) + " GPU, decode " +
            TimeSpan(r.decode_worker_seconds * 1e3) + " x " +
            std::to_string(r.decode_gpus_per_worker) + " GPU";
  }
  return text;
}

std::string GoodputText(const mocker::ReplayReport& r,
                        const mocker::ReplaySla& sla,
                        const Painter& paint) {
  const auto& good = *r.goodput;
  const double share = r.num_requests == 0 ? 0.0
                                           : static_cast<double>(good.completed_requests) /
                                                 static_cast<double>(r.num_requests);
  const bool all = good.completed_requests == r.num_requests;
  return paint(Grouped(good.completed_requests) + " requests (" + Percent(share) + ")",
               all ? Emphasis::kGood : Emphasis::kBad) +
         ", " + Grouped(good.request_throughput_rps, 2) + " requests/s, " +
         Grouped(good.output_throughput_tok_s, 2) + " output tok/s within " + SlaText(sla);
}

void AppendHeadlines(const mocker::ReplayReport& r,
                     const mocker::ReplaySla& sla,
                     const Painter& paint,
                     std::string& out) {
  const Headline line(paint, out);
  line("requests", RequestsText(r, paint));
  line("simulated", SimulatedText(r));
  line("throughput",
       Grouped(r.request_throughput_rps, 2) + " requests/s, " +
           Grouped(r.output_throughput_tok_s, 2) + " output tok/s, " +
           Grouped(r.input_throughput_tok_s, 2) + " input tok/s");
  line("cache reuse",
       Percent(r.prefix_cache_reused_ratio) + " of prompt tokens (first admission " +
           Percent(r.first_admission_prefix_cache_reused_ratio) + ")");
  line("cost", GpuText(r));
  if (r.goodput) {
    line("goodput", GoodputText(r, sla, paint));
  }
}

struct Row {
  const char* label;
  const char* unit;
  const mocker::Distribution* values;
};

std::vector<std::string> Cells(const Row& row) {
  const auto& v = *row.values;
  std::vector<std::string> cells{std::string(row.label) + " " + row.unit};
  for (const double value : {v.mean, v.min, v.median, v.p75, v.p90, v.p95, v.p99, v.max, v.std}) {
    cells.push_back(v.count == 0 ? "-" : Grouped(value, 2));
  }
  return cells;
}

void AppendTable(const mocker::ReplayReport& r, const Painter& paint, std::string& out) {
  const std::array rows = {
      Row{"TTFT", "ms", &r.ttft},
      Row{"TTST", "ms", &r.ttst},
      Row{"TPOT", "ms", &r.tpot},
      Row{"ITL", "ms", &r.itl},
      Row{"E2E", "ms", &r.e2e_latency},
      Row{"per user", "tok/s", &r.output_token_throughput_per_user},
  };
  std::vector<std::vector<std::string>> table{
      {"", "mean", "min", "p50", "p75", "p90", "p95", "p99", "max", "std"}};
  for (const auto& row : rows) {
    table.push_back(Cells(row));
  }
  std::vector<std::size_t> widths(table.front().size(), kCellWidthMin);
  widths[0] = kLabelWidth;
  for (const auto& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (std::size_t n = 0; n < table.size(); ++n) {
    std::string line = Left(table[n][0], widths[0]);
    for (std::size_t i = 1; i < table[n].size(); ++i) {
      line += "  " + Right(table[n][i], widths[i]);
    }
    out += paint(line, n == 0 ? Emphasis::kBold : Emphasis::kNone) + "\n";
  }
}

/// Distributions of very many different values are not exact.
std::string ErrorText(const mocker::ReplayReport& r) {
  double most = 0.0;
  for (const auto* values : {&r.ttft, &r.ttst, &r.tpot, &r.itl, &r.e2e_latency}) {
    most = std::max(most, values->relative_error);
  }
  most = std::max(most, r.output_token_throughput_per_user.relative_error);
  return most > 0 ? "The table is within " + Short(most * 100) + " % of the exact values." : "";
}

}  // namespace

std::string SlaText(const mocker::ReplaySla& sla) {
  std::string text;
  const auto bound = [&text](const char* name, const std::optional<double>& ms) {
    if (ms) {
      text += (text.empty() ? "" : ", ") + std::string(name) + " <= " + Plain(*ms) + " ms";
    }
  };
  bound("ttft", sla.ttft_ms);
  bound("itl", sla.itl_ms);
  bound("e2e", sla.e2e_ms);
  return text;
}

std::string CutShortText(const mocker::ReplayReport& report) {
  switch (report.end) {
    case mocker::ReplayEnd::kSimTimeReached:
      return "The limit of simulated time was reached: requests under way are not completed.";
    case mocker::ReplayEnd::kStopped:
      return "The run was interrupted: the figures are of what was done until then.";
    case mocker::ReplayEnd::kWorkloadDone:
      break;
  }
  return {};
}

std::string ReplayReportTable(const mocker::ReplayReport& report,
                              const mocker::ReplaySla& sla,
                              const ReplayRunInfo& info,
                              bool colour) {
  const Painter paint(colour);
  std::string out = paint(info.title, Emphasis::kBold) + "\n";
  AppendHeadlines(report, sla, paint, out);
  out += "\n";
  AppendTable(report, paint, out);
  for (const auto& note : {ErrorText(report), CutShortText(report)}) {
    if (!note.empty()) {
      out += "\n" + paint(note, Emphasis::kBad) + "\n";
    }
  }
  return out;
}

}  // namespace understudy::worker
