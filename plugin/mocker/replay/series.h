// What happened when, for plots: a bounded number of equal spans of simulated time.
#pragma once

#include "plugin/mocker/replay/log_histogram.h"
#include "understudy/mocker/replay.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace understudy::mocker {

/// State of one worker during a pass, or of a router between two moments.
struct SpanLoad {
  double start_ms = 0.0;
  double end_ms = 0.0;
  std::uint64_t waiting = 0;
  std::uint64_t running = 0;
  std::optional<double> blocks_used_ratio;  ///< none = of a router
};

/// Spans start at 1 ms; when kReplayBucketsMax are used, neighbours are merged and their length
/// doubles. Times may come in any order. About 12 kB a bucket with samples. Not thread safe.
class SeriesBuilder {
 public:
  void AddArrival(double at_ms) { ++At(at_ms).arrivals; }
  void AddFirstToken(double at_ms, std::uint64_t ttft_ns) { At(at_ms).ttft.Add(ttft_ns, 1); }
  void AddGaps(double at_ms, std::uint64_t gap_ns, std::uint64_t count) {
    At(at_ms).itl.Add(gap_ns, count);
  }
  void AddTokens(double at_ms, std::uint64_t count) { At(at_ms).output_tokens += count; }
  void AddCompleted(double at_ms) { ++At(at_ms).completed; }
  void AddAdmission(double at_ms, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  void AddLoad(const SpanLoad& load);

  /// `end_ms`: of the run; the last bucket may reach beyond it.
  [[nodiscard]] ReplaySeries Build(double end_ms) const;

 private:
  struct Bucket {
    LogHistogram ttft{kBucketError};
    LogHistogram itl{kBucketError};
    double waiting_ms = 0.0;  ///< requests x time
    double running_ms = 0.0;
    double worker_ms = 0.0;  ///< time in passes
    double used_ms = 0.0;    ///< of it, weighed with the share of blocks in use
    std::uint64_t arrivals = 0;
    std::uint64_t completed = 0;
    std::uint64_t output_tokens = 0;
    std::uint64_t input_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t waiting_max = 0;

    void Merge(const Bucket& other);
  };

  Bucket& At(double at_ms);
  void Halve();
  [[nodiscard]] ReplayBucket Describe(const Bucket& bucket, double start_ms, double end_ms) const;

  std::vector<Bucket> buckets_;
  double bucket_ms_ = 1.0;
};

}  // namespace understudy::mocker
