// The prefill side of all hand-offs: who came, who waits for a partner, who is at it.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/session.h"
#include "worker/handoff/source_session.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace understudy::worker {

struct SourceManagerCounts {
  std::uint64_t sources_total = 0;
  std::uint64_t destinations_total = 0;
  std::uint64_t sessions_total = 0;
  std::uint64_t sources_rejected_total = 0;
  std::uint64_t destinations_rejected_total = 0;
  /// Of the rejected: closed without a word, because sessions_max were being told already.
  std::uint64_t rejections_dropped_total = 0;
  std::uint64_t rendezvous_timeouts_total = 0;
  std::uint64_t limit_reached_total = 0;
};

/// All members on the loop's thread. Source: dynamo-llm 1.3.0 mocker/handoff.rs (mission.md C.6).
class SourceManager {
 public:
  /// How often pending participants are looked at.
  static constexpr Nanoseconds kSweepInterval = std::chrono::milliseconds(100);

  /// `sessions_max`: pending and active ones; also ids remembered after their end, and rejections
  /// that are being written.
  SourceManager(const SessionPlace& place, std::size_t sessions_max);
  ~SourceManager();
  SourceManager(const SourceManager&) = delete;
  SourceManager& operator=(const SourceManager&) = delete;

  enum class Ticket : std::uint64_t {};
  /// What becomes of it is told through `source.completion`, also a rejection. kUnavailable, and
  /// nothing is told: shut down.
  [[nodiscard]] Result<Ticket> Offer(SourceParticipant source);
  /// The client of the request is gone. Does nothing when the hand-off is over.
  void Cancel(Ticket ticket);

  void OnDestination(transport::BootstrapIncoming destination);

  /// Rejects those that wait, ends those at work; `closed` when all of it is over.
  void Shutdown(std::function<void()> closed);

  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  [[nodiscard]] std::size_t active() const { return active_.size(); }
  [[nodiscard]] std::size_t retired() const { return retired_.size(); }
  [[nodiscard]] const SourceManagerCounts& counts() const { return counts_; }

 private:
  struct Pending {
    TimePoint created{};
    std::optional<SourceParticipant> source;
    Ticket ticket{};
    std::optional<transport::BootstrapIncoming> destination;
  };
  struct Active {
    Ticket ticket{};
    std::unique_ptr<SourceSession> session;
  };
  struct Retired {
    engine::HandoffId id;
    TimePoint until{};
  };

  [[nodiscard]] bool IsKnown(engine::HandoffId id);
  [[nodiscard]] bool IsFull(engine::HandoffId id) const;
  Pending& PendingOf(engine::HandoffId id);
  void StartIfReady(engine::HandoffId id);
  void Drop(engine::HandoffId id, const char* text, bool tell_destination);
  void Retire(engine::HandoffId id);
  void Prune();
  void Sweep();
  void ArmSweep();
  void SessionOver(engine::HandoffId id);
  void Reject(SourceParticipant source, const char* text);
  void Reject(transport::BootstrapIncoming destination, const transport::BootstrapMessage& message);
  void RejectionOver(std::uint64_t number);
  void CheckClosed();

  const SessionPlace place_;
  const std::size_t sessions_max_;
  std::unordered_map<engine::HandoffId, Pending> pending_;
  std::unordered_map<engine::HandoffId, Active> active_;
  std::unordered_set<engine::HandoffId> retired_;
  std::deque<Retired> retired_order_;
  std::unordered_map<std::uint64_t, std::unique_ptr<transport::BootstrapConnection>> rejections_;
  std::unordered_map<Ticket, engine::HandoffId> tickets_;
  std::unique_ptr<transport::Timer> sweep_;
  bool sweep_armed_ = false;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t last_rejection_ = 0;
  bool shut_down_ = false;
  std::function<void()> closed_;
  SourceManagerCounts counts_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace understudy::worker
