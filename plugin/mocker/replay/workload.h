// Which request arrives when: first turns as the source lists them, later turns after the turn
// before, open or closed loop.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace understudy::mocker {

/// How a session goes on when a turn of it is over.
struct SessionPlace {
  std::uint64_t ordinal = 0;
  std::uint32_t turn = 0;
  TurnToken next = kNoTurn;
  double next_delay_ms = 0.0;
};

/// Holds one row, and 40 bytes for every session that waits between two turns. Turns that are
/// ready at the same time come in the order of their sessions. Source: dynamo-mocker 1.3.0
/// loadgen/driver.rs; golden replay_trace_vllm_sessions.json, replay_synth_vllm_concurrency4.json.
class Workload {
 public:
  /// `source` outlives it. `concurrency` none = open loop.
  Workload(ReplaySource& source, std::optional<std::uint32_t> concurrency, double speedup_ratio)
      : source_(source), concurrency_(concurrency), speedup_ratio_(speedup_ratio) {}

  /// Opens the source. Errors: the source's.
  [[nodiscard]] Status Open();

  /// When the next turn is ready (in a closed loop it may be in the past); none = when some request
  /// is over, or never.
  [[nodiscard]] std::optional<double> NextReadyMs() const;

  /// Fills `row` with the next turn that is ready at `now_ms`, and when it arrived. False: there is
  /// none. Errors: the source's.
  [[nodiscard]] Result<bool> PopReady(double now_ms, ReplayRow& row, double& arrival_ms);

  /// The turn is over (also when it was rejected or failed).
  void OnTerminal(const SessionPlace& place, double now_ms);

  /// Everything was given out, and nothing follows what is under way.
  [[nodiscard]] bool drained() const { return !has_head_ && later_.empty(); }
  [[nodiscard]] const ReplaySource& source() const { return source_; }
  [[nodiscard]] bool closed_loop() const { return concurrency_.has_value(); }

 private:
  struct Later {
    double ready_ms = 0.0;
    std::uint64_t ordinal = 0;
    TurnToken token = kNoTurn;
    std::uint32_t turn = 0;
  };
  static bool ComesAfter(const Later& a, const Later& b);

  Status ReadHead();
  [[nodiscard]] std::optional<double> HeadReadyMs() const;
  [[nodiscard]] bool HeadIsNext() const;
  Status PopHead(ReplayRow& row);
  Status PopLater(ReplayRow& row);

  ReplaySource& source_;
  std::optional<std::uint32_t> concurrency_;
  double speedup_ratio_;
  bool has_head_ = false;
  ReplayRow head_;            ///< the next first turn
  std::vector<Later> later_;  ///< a heap, the earliest on top
  /// Closed loop: when each place for a session that none has taken yet became free. At most
  /// `concurrency` of them; equal times are counted.
  struct Places {
    double since_ms = 0.0;
    std::uint64_t count = 0;
  };
  std::deque<Places> free_places_;
};

}  // namespace understudy::mocker
