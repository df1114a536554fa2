// Prefill workers of a process: their bootstrap ports, and the requests that are handed over.
#pragma once

#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/part.h"
#include "worker/handoff/source_manager.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// All members on the loop's thread.
class Sources {
 public:
  /// `sessions_max`: of each worker.
  Sources(const SessionPlace& place, HandoffOwner owner, std::size_t sessions_max);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  /// A port for each worker. Registered peers wait until Serve. kUnavailable: `bootstrap port {p}:
  /// ` and the operating system's text; then nothing is open.
  [[nodiscard]] Status Listen(const std::vector<std::uint16_t>& ports);
  void Serve();
  [[nodiscard]] bool listens() const { return !workers_.empty(); }
  /// As bound, one per worker.
  [[nodiscard]] std::vector<std::uint16_t> ports() const;

  /// kUnavailable: shut down.
  [[nodiscard]] Status Begin(HandoffPart part, SourceParticipant participant);
  /// It has its token. True: the hand-off goes on, and its end is told.
  [[nodiscard]] bool LastToken(RequestId id);
  void Cancel(RequestId id);

  /// Everybody is told, then the ports close.
  void Shutdown(std::function<void()> closed);

  void AddTotals(HandoffMetrics::Totals& totals) const;
  [[nodiscard]] std::vector<HandoffSummary> Summaries() const;

 private:
  struct Worker {
    std::unique_ptr<transport::BootstrapListener> listener;
    std::unique_ptr<SourceManager> manager;
  };
  struct Entry {
    HandoffPart part;
    SourceManager::Ticket ticket{};
    bool cancelled = false;
  };
  void Over(RequestId id, const Status& status);

  const SessionPlace place_;
  const HandoffOwner owner_;
  const std::size_t sessions_max_;
  std::vector<Worker> workers_;
  std::unordered_map<RequestId, Entry> entries_;
  std::size_t closing_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace understudy::worker
