// understudy_loadgen: drives one worker over its request plane without a frontend, and measures it.
// No library beyond the standard one, so that the measuring side stays cheap.
#include "tests/bench/loadgen/driver.h"

#include <csignal>
#include <cstdio>
#include <sys/resource.h>

namespace understudy::loadgen {
namespace {

constexpr int kExitStreamsShort = 1;
constexpr int kExitCannotStart = 2;
constexpr int kExitTimeout = 3;

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Measure(const Options& options) {
  Driver driver(options);
  if (!driver.Open()) {
    return kExitCannotStart;
  }
  if (options.warmup > 0 && driver.Run(options.warmup, false) != RunEnd::kComplete) {
    return kExitTimeout;
  }
  std::vector<ProcessSpan> processes;
  for (const WatchedProcess& process : options.processes) {
    processes.push_back({process.name, ReadProcess(process.pid), {}});
  }
  const double own_before = OwnCpuSeconds();
  if (driver.Run(options.requests, true) != RunEnd::kComplete) {
    return kExitTimeout;
  }
  const double own_cpu_s = OwnCpuSeconds() - own_before;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i].after = ReadProcess(options.processes[i].pid);
  }
  PrintReport(options, driver.stats(), processes, own_cpu_s);
  return driver.stats().errors > 0 ? kExitStreamsShort : 0;
}

}  // namespace
}  // namespace understudy::loadgen

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto options = understudy::loadgen::ParseOptions(argc, argv);
  if (!options) {
    std::fputs(understudy::loadgen::UsageText(), stderr);
    return understudy::loadgen::kExitCannotStart;
  }
  understudy::loadgen::RaiseFileLimit();
  return understudy::loadgen::Measure(*options);
}
