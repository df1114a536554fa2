// What happened to the requests of a run, from arrival to report.
#pragma once

#include "plugin/mocker/replay/sample_set.h"
#include "plugin/mocker/replay/series.h"
#include "plugin/mocker/replay/workload.h"
#include "plugin/mocker/scheduler/pass_output.h"
#include "understudy/base/ids.h"
#include "understudy/engine/types.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace understudy::mocker {

/// Knows every request that is under way, and sums of those that are over. Request ids are places
/// in its table, given out again when a request is over. Times are ms of simulated time. Source:
/// dynamo-mocker 1.3.0 replay/collector.rs. Not thread safe.
class Collector {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::uint32_t kNobody = 0xFFFFFFFFU;

  /// Of a disaggregated request.
  struct Handoff {
    double prefill_admit_ms = kNever;
    double source_held_ms = kNever;
    double destination_reserved_ms = kNever;
    double destination_activated_ms = kNever;
    double decode_admit_ms = kNever;
    double source_released_ms = kNever;
    std::uint32_t prefill_reused = kNobody;  ///< kNobody = absent, like the next three
    std::uint32_t decode_reused = kNobody;
    std::uint32_t prefill_overlap = kNobody;
    std::uint32_t decode_overlap = kNobody;
  };

  struct Request {
    std::string uuid;  ///< empty = made of `number`
    std::string session_id;
    SessionPlace place;
    std::uint64_t number = 0;  ///< of its arrival
    double arrival_ms = 0.0;
    double first_admit_ms = kNever;
    double ttst_ms = kNever;
    std::uint32_t input_length = 0;
    std::uint32_t output_length = 0;
    std::uint32_t reused = 0;
    std::uint32_t first_reused = 0;
    std::uint32_t prefill_worker = kNobody;
    std::uint32_t decode_worker = kNobody;
    Handoff handoff;
    std::unique_ptr<ReplayHistory> history;  ///< only when somebody wants to know
    ReplayStatus status = ReplayStatus::kCompleted;
    bool over = false;
    bool used = false;  ///< the entry stands for a request
  };

  /// `observer` outlives it.
  /// Records and report are those of `release`.
  Collector(SemanticsRelease release,
            const ReplaySla& sla,
            const ReplayObserver& observer,
            std::uint64_t seed,
            std::uint64_t rows_total)
      : release_(release), sla_(sla), observer_(observer), seed_(seed), rows_total_(rows_total) {}

  /// A new request; takes the strings of `row`.
  [[nodiscard]] RequestId Arrive(ReplayRow& row, double arrival_ms);
  /// It waits in a router.
  void Queue(RequestId id, ReplayStage stage, double at_ms);
  /// A rank got it, at once or out of a router's queue.
  void Route(RequestId id, const ReplayRouting& routing);
  /// All that a pass admitted.
  void Admit(const PassOutput& pass, ReplayStage stage, double at_ms);
  /// Prompt tokens that a pass computed.
  void AddPromptTokens(std::uint64_t tokens) { sums_.committed_prefill_tokens += tokens; }
  /// Tokens among `outputs`, all at the same time.
  void AddTokens(const std::vector<engine::Output>& outputs, double at_ms);
  /// The request is over; its entry stays until Release.
  void Finish(RequestId id, ReplayStatus status, double at_ms);
  /// Tells the observer and forgets the request.
  void Release(RequestId id);

  [[nodiscard]] Request& operator[](RequestId id) { return requests_[Value(id)]; }
  [[nodiscard]] std::uint32_t TokensOf(RequestId id) const { return times_[Value(id)].tokens; }
  [[nodiscard]] SeriesBuilder& series() { return series_; }
  [[nodiscard]] std::uint64_t in_flight() const { return in_flight_; }

  /// To be called after every pass. False: the observer wants to stop.
  [[nodiscard]] bool Progress(double now_ms);

  struct Totals {
    ReplayEnd end = ReplayEnd::kWorkloadDone;
    double end_ms = 0.0;
    double wall_time_ms = 0.0;
    /// Workers of the two stages over the whole run; `static_workers`: until the last token.
    std::uint32_t prefill_workers = 0;
    std::uint32_t decode_workers = 0;
    bool static_workers = false;
    std::uint32_t prefill_gpus = 0;
    std::uint32_t decode_gpus = 0;
    std::uint64_t preemptions = 0;
  };
  /// Once, at the end; requests still under way count as far as they got.
  [[nodiscard]] ReplayReport Report(const Totals& totals);

 private:
  struct TokenTimes {
    double first_ms = 0.0;
    double last_ms = 0.0;
    std::uint32_t tokens = 0;
  };

  void Admit(RequestId id, const ReplayAdmission& admission);
  void AddFirstToken(RequestId id, double at_ms);
  void AddGap(std::uint64_t nanoseconds, std::uint64_t count, double at_ms);
  void Fold(std::uint32_t index);
  /// As the release counts it.
  [[nodiscard]] std::uint32_t OutputLength(std::uint32_t index) const;
  [[nodiscard]] bool IsGood(double ttft_ms, double e2e_ms, std::uint32_t output_length) const;
  [[nodiscard]] ReplayRecord RecordOf(std::uint32_t index) const;
  void FillThroughput(ReplayReport& report, const Totals& totals) const;

  const SemanticsRelease release_;
  const ReplaySla sla_;
  const ReplayObserver& observer_;
  const std::uint64_t seed_;
  const std::uint64_t rows_total_;

  std::vector<Request> requests_;
  std::vector<TokenTimes> times_;  ///< beside requests_: all that a token touches
  std::vector<std::uint32_t> unused_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t passes_ = 0;
  std::uint64_t rows_done_ = 0;
  std::uint64_t told_rows_ = 0;

  // Sums over requests that are over.
  ReplayReport sums_;
  Goodput good_;
  std::uint64_t good_tokens_ = 0;
  std::uint64_t reused_ = 0;
  std::uint64_t first_reused_ = 0;
  SampleSet ttft_;
  SampleSet ttst_;
  SampleSet tpot_;
  SampleSet itl_;
  SampleSet e2e_;
  SeriesBuilder series_;
};

}  // namespace understudy::mocker
