// The real binary as a child process, watched from outside only: output, HTTP, /proc.
#pragma once

#include "tests/fakes/server_process.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace understudy::worker {

/// Polls `condition` every few milliseconds until it holds; false after a minute.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition);

/// A child that runs `understudy`. It dies with the thread that started it. Members block.
class WorkerProcess {
 public:
  static constexpr std::chrono::seconds kLimit{60};
  using Environment = std::map<std::string, std::string>;

  /// `environment` is all that the child gets, apart from PATH and what sanitizers read.
  WorkerProcess(const std::vector<std::string>& arguments, const Environment& environment);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Until the ready line was written; false when the process ended or the limit came first.
  [[nodiscard]] bool WaitReady();
  /// A field of the ready line (`instance`, `status`, ...).
  [[nodiscard]] std::string Ready(const std::string& field) const;
  [[nodiscard]] std::vector<std::string> Instances() const;
  /// NATS subject of `generate` of a process with one worker in namespace `ns`.
  [[nodiscard]] std::string SubjectIn(const std::string& ns) const;

  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  /// Until stderr holds `text`.
  [[nodiscard]] bool WaitErr(const std::string& text) const;
  [[nodiscard]] std::size_t CountErr(const std::string& text) const;

  void Signal(int number) const;
  /// The exit code; nothing when it still runs at the limit; 128 + n after signal n.
  [[nodiscard]] std::optional<int> WaitExit();
  [[nodiscard]] bool running();
  [[nodiscard]] pid_t pid() const { return pid_; }

  struct Reply {
    int status = 0;  ///< 0 = no answer
    std::string body;
  };
  [[nodiscard]] Reply Get(const std::string& path) const;
  /// The sum of a family over its series whose labels hold `label`; nothing when there is none.
  [[nodiscard]] std::optional<double> Metric(const std::string& name,
                                             const std::string& label = {}) const;
  [[nodiscard]] bool WaitMetric(const std::string& name,
                                double value,
                                const std::string& label = {}) const;
  /// Until nothing runs, waits or is held in the engine, and no response connection is open.
  [[nodiscard]] bool WaitIdle() const;

  [[nodiscard]] std::size_t threads() const;
  [[nodiscard]] std::size_t descriptors() const;
  [[nodiscard]] std::size_t sockets() const;
  [[nodiscard]] std::size_t resident_bytes() const;
  /// Sends SIGUSR1 and gives back the JSON text it makes the worker write.
  [[nodiscard]] std::string DumpState() const;

 private:
  [[nodiscard]] std::string ReadyLine() const;
  bool Reap();

  fakes::TempDir dir_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::string ready_;
};

}  // namespace understudy::worker
