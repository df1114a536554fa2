// What a run measured, and what other processes used meanwhile.
#pragma once

#include "tests/bench/loadgen/options.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace understudy::loadgen {

[[nodiscard]] std::uint64_t MonotonicNs();
[[nodiscard]] std::uint64_t WallNs();
[[nodiscard]] double OwnCpuSeconds();

/// Durations in microseconds.
class Samples {
 public:
  void Add(double us) { values_.push_back(static_cast<float>(us)); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// The value below which the share `p` (0..1) lies; reorders the values.
  [[nodiscard]] double Quantile(double p);
  [[nodiscard]] double Mean() const;
  [[nodiscard]] double Deviation() const;

 private:
  std::vector<float> values_;
};

struct Stats {
  std::uint64_t started_ns = 0;
  std::uint64_t ended_ns = 0;
  std::uint64_t tokens = 0;
  std::uint64_t frames = 0;
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
  std::uint64_t done = 0;
  std::uint64_t errors = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t acks = 0;
  std::uint64_t in_flight_max = 0;
  Samples ttft;
  Samples itl;
  Samples latency;
  Samples cancel;
  Samples ack;
};

/// Processor time at nanosecond resolution, the rest from /proc.
struct ProcessUse {
  double cpu_s = 0;
  double user_s = 0;
  double system_s = 0;
  long rss_kb = 0;
  long rss_max_kb = 0;
  long threads = 0;
};
[[nodiscard]] ProcessUse ReadProcess(int pid);

/// Use of one watched process over the measured part.
struct ProcessSpan {
  std::string name;
  ProcessUse before;
  ProcessUse after;
};

void PrintReport(const Options& options,
                 Stats& stats,
                 const std::vector<ProcessSpan>& processes,
                 double own_cpu_s);

}  // namespace understudy::loadgen
