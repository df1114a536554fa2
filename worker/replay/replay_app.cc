#include "worker/replay/replay_app.h"

#include "understudy/base/clock.h"
#include "worker/replay/interrupt.h"
#include "worker/replay/output_file.h"
#include "worker/replay/progress.h"
#include "worker/replay/report_html.h"
#include "worker/replay/report_json.h"
#include "worker/replay/report_table.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace understudy::worker {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitSignalBase = 128;
constexpr std::size_t kColumnsDefault = 80;

bool ColourWanted(int descriptor) {
  const auto* no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): one thread
  const auto* term = std::getenv("TERM");           // NOLINT(concurrency-mt-unsafe): one thread
  return ::isatty(descriptor) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
         (term == nullptr || std::string(term) != "dumb");
}

ReplayProgressView::Style ProgressStyle() {
  ReplayProgressView::Style style;
  style.terminal = ::isatty(STDERR_FILENO) == 1;
  style.colour = ColourWanted(STDERR_FILENO);
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  style.columns = known ? size.ws_col : kColumnsDefault;
  return style;
}

void WriteError(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int FailRun(const Error& error) {
  std::fprintf(stderr, "understudy replay: error: %s\n", error.message.c_str());
  return kExitFailed;
}

/// The files that were asked for; null = not asked for.
struct Outputs {
  std::unique_ptr<OutputFile> report, html, requests;

  [[nodiscard]] bool to_standard_output() const {
    return (report && report->path() == "-") || (html && html->path() == "-") ||
           (requests && requests->path() == "-");
  }
};

/// Before the run: it may take minutes, and a path that cannot be written should not cost them.
Result<Outputs> OpenOutputs(const ReplayPlan& plan) {
  Outputs outputs;
  if (plan.report) {
    UNDERSTUDY_TRY(outputs.report, OutputFile::Open("--report", *plan.report));
  }
  if (plan.html) {
    UNDERSTUDY_TRY(outputs.html, OutputFile::Open("--html", *plan.html));
  }
  if (plan.requests) {
    UNDERSTUDY_TRY(outputs.requests, OutputFile::Open("--requests", *plan.requests));
  }
  return outputs;
}

Status CommitOutputs(Outputs& outputs) {
  for (auto* output : {outputs.report.get(), outputs.html.get(), outputs.requests.get()}) {
    if (output != nullptr) {
      UNDERSTUDY_TRY_STATUS(output->Commit());
    }
  }
  return {};
}

void PrintReport(const ReplayPlan& plan,
                 const ReplayRunInfo& info,
                 const mocker::ReplayReport& report) {
  auto text = ReplayReportTable(report, plan.options.sla, info, ColourWanted(STDOUT_FILENO));
  const auto saved = [&text](const char* what, const std::optional<std::string>& path) {
    if (path) {
      text += std::string(what) + *path + "\n";
    }
  };
  text += plan.report || plan.html || plan.requests ? "\n" : "";
  saved("report        ", plan.report);
  saved("page          ", plan.html);
  saved("requests      ", plan.requests);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::unique_ptr<mocker::ReplaySource> MakeSource(const ReplayPlan& plan) {
  return plan.trace ? mocker::NewMooncakeReader(*plan.trace, plan.trace_block_size)
                    : mocker::NewSyntheticSource(plan.synthetic);
}

/// `requests` may be null.
Result<mocker::ReplayReport> Run(const ReplayPlan& plan,
                                 const InterruptGuard& interrupt,
                                 OutputFile* requests,
                                 ReplayCurves& curves) {
  const SteadyClock clock;
  ReplayProgressView progress(clock, ProgressStyle(), WriteError);
  mocker::ReplayObserver observer;
  observer.on_progress = [&](const mocker::ReplayProgress& now) {
    progress.Update(now);
    return interrupt.signal() == 0;
  };
  std::string line;
  if (plan.html || requests != nullptr) {
    observer.on_record = [&](const mocker::ReplayRecord& record) {
      curves.Add(record);
      if (requests != nullptr) {
        line.clear();
        AppendReplayRecordJson(record, line);
        requests->Write(line);
      }
    };
  }
  const auto source = MakeSource(plan);
  auto report = mocker::RunReplay(plan.options, *source, observer);
  progress.Finish();
  return report;
}

}  // namespace

int RunReplayPlan(const ReplayPlan& plan, const ReplayRunInfo& info) {
  if (const auto valid = mocker::ValidateReplay(plan.options); !valid) {
    return FailRun(valid.error());
  }
  auto outputs = OpenOutputs(plan);
  if (!outputs) {
    return FailRun(outputs.error());
  }
  const InterruptGuard interrupt;
  ReplayCurves curves;
  const auto report = Run(plan, interrupt, outputs->requests.get(), curves);
  if (!report) {
    return FailRun(report.error());
  }
  if (outputs->report) {
    outputs->report->Write(ReplayReportJson(*report, info));
  }
  if (outputs->html) {
    outputs->html->Write(ReplayReportHtml(*report, plan.options.sla, curves, info));
  }
  const bool print = !plan.quiet && !outputs->to_standard_output();
  if (const auto written = CommitOutputs(*outputs); !written) {
    return FailRun(written.error());
  }
  if (print) {
    PrintReport(plan, info, *report);
  }
  return report->end == mocker::ReplayEnd::kStopped ? kExitSignalBase + interrupt.signal() : 0;
}

}  // namespace understudy::worker
