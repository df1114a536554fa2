#include "worker/replay/progress.h"

#include "worker/replay/number_text.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::string_view kBeginLine = "\r\x1b[K";  // and erase what stood there

double Share(const mocker::ReplayProgress& progress) {
  return progress.rows_total == 0 ? 0.0
                                  : std::min(1.0,
                                             static_cast<double>(progress.rows_done) /
                                                 static_cast<double>(progress.rows_total));
}

std::string PaintedBar(double share, bool colour) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  const std::string done(full, '#');
  const std::string rest(kBarWidth - full, '-');
  return colour ? "[\x1b[32m" + done + "\x1b[2m" + rest + "\x1b[0m]" : "[" + done + rest + "]";
}

}  // namespace

std::string ProgressText(const mocker::ReplayProgress& progress, double seconds) {
  const double share = Share(progress);
  std::string text = Grouped(share * 100, 0) + " % " + Grouped(progress.rows_done) + " of " +
                     Grouped(progress.rows_total) + " requests";
  if (seconds > 0) {
    text += ", " + Grouped(static_cast<double>(progress.rows_done) / seconds, 0) + "/s";
  }
  text += ", " + TimeSpan(progress.simulated_ms) + " simulated";
  if (share > 0) {
    text += ", ETA " + TimeSpan(seconds / share * (1 - share) * 1e3);
  }
  return text;
}

ReplayProgressView::ReplayProgressView(const Clock& clock, Style style, Write write)
    : clock_(clock),
      style_(style),
      write_(std::move(write)),
      started_(clock.Now()),
      due_(started_ + (style.terminal ? kQuiet : kLineEvery)) {}

void ReplayProgressView::Update(const mocker::ReplayProgress& progress) {
  const auto now = clock_.Now();
  if (now < due_) {
    return;
  }
  due_ = now + (style_.terminal ? kRedraw : kLineEvery);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  if (style_.terminal) {
    write_(std::string(kBeginLine) + Bar(progress, seconds));
    drawn_ = true;
  } else {
    write_("understudy replay: " + ProgressText(progress, seconds) + "\n");
  }
}

std::string ReplayProgressView::Bar(const mocker::ReplayProgress& progress, double seconds) const {
  auto text = ProgressText(progress, seconds);
  const std::size_t room = style_.columns > 0 ? style_.columns - 1 : 0;  // the last one may wrap
  if (text.size() + kBarWidth + 3 > room) {
    return text.substr(0, room);
  }
  return PaintedBar(Share(progress), style_.colour) + " " + text;
}

void ReplayProgressView::Finish() {
  if (drawn_) {
    write_(kBeginLine);
    drawn_ = false;
  }
}

}  // namespace understudy::worker
