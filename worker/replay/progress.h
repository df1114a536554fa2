// What a person sees while a replay runs.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/mocker/replay.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace understudy::worker {

/// A bar that is drawn over itself on a terminal, else a line now and then. One thread.
class ReplayProgressView {
 public:
  static constexpr Nanoseconds kQuiet =
      std::chrono::milliseconds(500);  ///< short runs show nothing
  static constexpr Nanoseconds kRedraw = std::chrono::milliseconds(100);
  static constexpr Nanoseconds kLineEvery = std::chrono::seconds(10);

  struct Style {
    bool terminal = false;  ///< draw a bar
    bool colour = false;
    std::size_t columns = 80;  ///< of the terminal
  };
  using Write = std::function<void(std::string_view)>;

  /// `clock` outlives the view; its time now is the start of the run.
  ReplayProgressView(const Clock& clock, Style style, Write write);

  /// Often; writes only when it is time.
  void Update(const mocker::ReplayProgress& progress);
  /// Takes the bar away.
  void Finish();

 private:
  [[nodiscard]] std::string Bar(const mocker::ReplayProgress& progress, double seconds) const;

  const Clock& clock_;
  Style style_;
  Write write_;
  TimePoint started_;
  TimePoint due_;
  bool drawn_ = false;
};

/// "45 % 45,000 of 100,000 requests, 92,000/s, 1 min 20 s simulated, ETA 0.6 s"
[[nodiscard]] std::string ProgressText(const mocker::ReplayProgress& progress, double seconds);

}  // namespace understudy::worker
