#include "tests/bench/loadgen/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace understudy::loadgen {
namespace {

std::uint64_t ReadClock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double Seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}
double Real(std::uint64_t count) {
  return static_cast<double>(count);
}
double PerCount(double total, std::uint64_t count, double scale) {
  return count == 0 ? 0.0 : total / Real(count) * scale;
}

using Row = std::pair<const char*, Samples*>;

std::array<Row, 5> Rows(Stats& stats) {
  return {{{"ttft", &stats.ttft},
           {"itl", &stats.itl},
           {"latency", &stats.latency},
           {"cancel", &stats.cancel},
           {"ack", &stats.ack}}};
}

void PrintJsonProcess(const ProcessSpan& span, std::uint64_t requests, std::uint64_t tokens) {
  const double cpu = span.after.cpu_s - span.before.cpu_s;
  std::printf(
      ",\"%s\":{\"cpu_s\":%.6f,\"user_s\":%.2f,\"sys_s\":%.2f,\"cpu_s_per_1k_req\":%.6f,\"cpu_s_"
      "per_1m_tok\":%.4f,"
      "\"rss_kb\":%ld,\"hwm_kb\":%ld,\"threads\":%ld}",
      span.name.c_str(),
      cpu,
      span.after.user_s - span.before.user_s,
      span.after.system_s - span.before.system_s,
      PerCount(cpu, requests, 1e3),
      PerCount(cpu, tokens, 1e6),
      span.after.rss_kb,
      span.after.rss_max_kb,
      span.after.threads);
}

void PrintJson(Stats& stats,
               const std::vector<ProcessSpan>& processes,
               double wall_s,
               double own_cpu_s) {
  const std::uint64_t answered = stats.done + stats.cancelled;
  std::printf(
      "{\"requests\":%llu,\"errors\":%llu,\"cancelled\":%llu,\"tokens\":%llu,\"frames\":%llu,"
      "\"reads\":%llu,"
      "\"bytes\":%llu,\"wall_s\":%.6f,\"req_s\":%.2f,\"tok_s\":%.1f,\"self_cpu_s\":%.6f",
      static_cast<unsigned long long>(stats.done),
      static_cast<unsigned long long>(stats.errors),
      static_cast<unsigned long long>(stats.cancelled),
      static_cast<unsigned long long>(stats.tokens),
      static_cast<unsigned long long>(stats.frames),
      static_cast<unsigned long long>(stats.reads),
      static_cast<unsigned long long>(stats.bytes),
      wall_s,
      Real(answered) / wall_s,
      Real(stats.tokens) / wall_s,
      own_cpu_s);
  for (const auto& [name, samples] : Rows(stats)) {
    if (samples->size() > 0) {
      std::printf(
          ",\"%s_us\":{\"n\":%zu,\"mean\":%.2f,\"sd\":%.1f,\"min\":%.1f,\"p50\":%.1f,\"p90\":%.1f,"
          "\"p99\":%.1f,"
          "\"max\":%.1f}",
          name,
          samples->size(),
          samples->Mean(),
          samples->Deviation(),
          samples->Quantile(0),
          samples->Quantile(.5),
          samples->Quantile(.9),
          samples->Quantile(.99),
          samples->Quantile(1));
    }
  }
  for (const ProcessSpan& span : processes) {
    PrintJsonProcess(span, answered + stats.errors, stats.tokens);
  }
  std::puts("}");
}

void PrintText(Stats& stats,
               const std::vector<ProcessSpan>& processes,
               double wall_s,
               double own_cpu_s) {
  const std::uint64_t answered = stats.done + stats.cancelled;
  std::printf("requests %llu  errors %llu  cancelled %llu  acks %llu  tokens %llu  wall %.3f s\n",
              static_cast<unsigned long long>(stats.done),
              static_cast<unsigned long long>(stats.errors),
              static_cast<unsigned long long>(stats.cancelled),
              static_cast<unsigned long long>(stats.acks),
              static_cast<unsigned long long>(stats.tokens),
              wall_s);
  std::printf(
      "req/s %.1f  tok/s %.0f  bytes/token %.1f  frames/read %.2f  max in flight %llu  own cpu "
      "%.3f s\n",
      Real(answered) / wall_s,
      Real(stats.tokens) / wall_s,
      PerCount(Real(stats.bytes), stats.tokens, 1),
      PerCount(Real(stats.frames), stats.reads, 1),
      static_cast<unsigned long long>(stats.in_flight_max),
      own_cpu_s);
  for (const auto& [name, samples] : Rows(stats)) {
    if (samples->size() > 0) {
      std::printf(
          "%-8s us  n %zu  mean %.1f  sd %.1f  min %.1f  p50 %.1f  p90 %.1f  p99 %.1f  max %.1f\n",
          name,
          samples->size(),
          samples->Mean(),
          samples->Deviation(),
          samples->Quantile(0),
          samples->Quantile(.5),
          samples->Quantile(.9),
          samples->Quantile(.99),
          samples->Quantile(1));
    }
  }
  for (const ProcessSpan& span : processes) {
    const double cpu = span.after.cpu_s - span.before.cpu_s;
    std::printf(
        "%-8s cpu %.3f s (user %.2f sys %.2f)  per 1k req %.4f s  per 1M tok %.3f s  rss %ld kB  "
        "peak %ld kB  "
        "threads %ld\n",
        span.name.c_str(),
        cpu,
        span.after.user_s - span.before.user_s,
        span.after.system_s - span.before.system_s,
        PerCount(cpu, answered + stats.errors, 1e3),
        PerCount(cpu, stats.tokens, 1e6),
        span.after.rss_kb,
        span.after.rss_max_kb,
        span.after.threads);
  }
}

}  // namespace

std::uint64_t MonotonicNs() {
  return ReadClock(CLOCK_MONOTONIC);
}
std::uint64_t WallNs() {
  return ReadClock(CLOCK_REALTIME);
}
double OwnCpuSeconds() {
  return Seconds(ReadClock(CLOCK_PROCESS_CPUTIME_ID));
}

double Samples::Quantile(double p) {
  if (values_.empty()) {
    return 0;
  }
  const auto rank = std::lround(p * static_cast<double>(values_.size() - 1));
  std::nth_element(values_.begin(), values_.begin() + rank, values_.end());
  return static_cast<double>(values_[static_cast<std::size_t>(rank)]);
}

double Samples::Mean() const {
  const double sum = std::accumulate(values_.begin(), values_.end(), 0.0);
  return PerCount(sum, values_.size(), 1);
}

double Samples::Deviation() const {
  const double mean = Mean();
  double squares = 0;
  for (const float value : values_) {
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  }
  return values_.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values_.size() - 1));
}

ProcessUse ReadProcess(int pid) {
  ProcessUse use;
  clockid_t clock = 0;
  if (clock_getcpuclockid(pid, &clock) == 0) {
    use.cpu_s = Seconds(ReadClock(clock));
  }
  const std::string base = "/proc/" + std::to_string(pid);
  std::string line;
  std::ifstream stat(base + "/stat");
  std::getline(stat, line);
  if (const std::size_t name_end = line.rfind(')'); name_end != std::string::npos) {
    unsigned long user = 0;
    unsigned long system = 0;
    std::sscanf(line.c_str() + name_end + 2,
                "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                &user,
                &system);
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    use.user_s = static_cast<double>(user) / ticks;
    use.system_s = static_cast<double>(system) / ticks;
  }
  std::ifstream status(base + "/status");
  while (std::getline(status, line)) {
    std::sscanf(line.c_str(), "VmRSS: %ld", &use.rss_kb);
    std::sscanf(line.c_str(), "VmHWM: %ld", &use.rss_max_kb);
    std::sscanf(line.c_str(), "Threads: %ld", &use.threads);
  }
  return use;
}

void PrintReport(const Options& options,
                 Stats& stats,
                 const std::vector<ProcessSpan>& processes,
                 double own_cpu_s) {
  const double wall_s = std::max(Seconds(stats.ended_ns - stats.started_ns), 1e-9);
  if (options.json) {
    PrintJson(stats, processes, wall_s, own_cpu_s);
  } else {
    PrintText(stats, processes, wall_s, own_cpu_s);
  }
}

}  // namespace understudy::loadgen
