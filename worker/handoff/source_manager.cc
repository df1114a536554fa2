#include "worker/handoff/source_manager.h"

#include "worker/handoff/wire.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr const char* kKnown = "handoff session is already active or retired";
constexpr const char* kLimit = "handoff session limit reached";
constexpr const char* kMismatch = "handoff participant identity or backend mismatch";
constexpr const char* kCanceled = "source request was canceled before rendezvous";
constexpr const char* kDisconnected = "destination disconnected before rendezvous";
constexpr const char* kTimedOut = "handoff participant rendezvous timed out";
constexpr const char* kShutDown = "handoff manager is shutting down";

bool Match(const SourceParticipant& source, const transport::BootstrapIncoming& destination) {
  return source.identity == destination.identity &&
         ToWire(source.order) == destination.registration.order &&
         ToWire(source.engine_type) == destination.registration.engine;
}

}  // namespace

SourceManager::SourceManager(const SessionPlace& place, std::size_t sessions_max)
    : place_(place),
      sessions_max_(std::max<std::size_t>(1, sessions_max)),
      sweep_(place.loop.NewTimer()) {}

SourceManager::~SourceManager() {
  *alive_ = false;
}

Result<SourceManager::Ticket> SourceManager::Offer(SourceParticipant source) {
  if (shut_down_) {
    return Fail(Errc::kUnavailable, "mocker handoff source admission failed: channel closed");
  }
  ++counts_.sources_total;
  const Ticket ticket{++last_ticket_};
  const engine::HandoffId id{source.identity.handoff_id};
  if (IsKnown(id)) {
    Reject(std::move(source), kKnown);
  } else if (IsFull(id)) {
    ++counts_.limit_reached_total;
    Reject(std::move(source), kLimit);
  } else if (Pending& pending = PendingOf(id); pending.source) {
    Reject(std::move(source), "duplicate source participant");
  } else {
    pending.source = std::move(source);
    pending.ticket = ticket;
    tickets_[ticket] = id;
    StartIfReady(id);
  }
  return ticket;
}

void SourceManager::OnDestination(transport::BootstrapIncoming destination) {
  if (shut_down_) {
    return;
  }
  ++counts_.destinations_total;
  const engine::HandoffId id{destination.identity.handoff_id};
  if (IsKnown(id)) {
    Reject(std::move(destination), transport::BootstrapProtocolError{kKnown});
  } else if (IsFull(id)) {
    ++counts_.limit_reached_total;
    Reject(std::move(destination), transport::BootstrapOverloaded());
  } else if (Pending& pending = PendingOf(id); pending.destination) {
    Reject(std::move(destination),
           transport::BootstrapProtocolError{"duplicate destination participant"});
  } else {
    pending.destination = std::move(destination);
    StartIfReady(id);
  }
}

bool SourceManager::IsKnown(engine::HandoffId id) {
  Prune();
  return retired_.contains(id) || active_.contains(id);
}

bool SourceManager::IsFull(engine::HandoffId id) const {
  return !pending_.contains(id) && pending_.size() + active_.size() >= sessions_max_;
}

SourceManager::Pending& SourceManager::PendingOf(engine::HandoffId id) {
  const auto [it, added] = pending_.try_emplace(id);
  if (added) {
    it->second.created = place_.clock.Now();
    ArmSweep();
  }
  return it->second;
}

void SourceManager::StartIfReady(engine::HandoffId id) {
  const auto it = pending_.find(id);
  if (!it->second.source || !it->second.destination) {
    return;
  }
  if (!Match(*it->second.source, *it->second.destination)) {
    Drop(id, kMismatch, true);
    return;
  }
  Pending ready = std::move(it->second);
  pending_.erase(it);
  ++counts_.sessions_total;
  auto session = std::make_unique<SourceSession>(
      place_, std::move(*ready.source), std::move(ready.destination->connection), [this, id] {
        SessionOver(id);
      });
  SourceSession& begun = *session;
  active_[id] = {ready.ticket, std::move(session)};
  begun.Begin();
}

void SourceManager::Cancel(Ticket ticket) {
  const auto it = tickets_.find(ticket);
  if (it == tickets_.end()) {
    return;
  }
  const engine::HandoffId id = it->second;
  if (pending_.contains(id)) {
    Drop(id, kCanceled, true);
  } else if (const auto active = active_.find(id); active != active_.end()) {
    active->second.session->Cancel();
  }
}

void SourceManager::Drop(engine::HandoffId id, const char* text, bool tell_destination) {
  const auto it = pending_.find(id);
  Pending pending = std::move(it->second);
  pending_.erase(it);
  if (pending.source) {
    tickets_.erase(pending.ticket);
    Reject(std::move(*pending.source), text);
  }
  if (pending.destination && tell_destination) {
    Reject(std::move(*pending.destination), transport::BootstrapProtocolError{text});
  }
  Retire(id);
}

void SourceManager::Retire(engine::HandoffId id) {
  retired_.insert(id);
  retired_order_.push_back({id, place_.clock.Now() + place_.session_timeout});
  while (retired_order_.size() > sessions_max_) {
    retired_.erase(retired_order_.front().id);
    retired_order_.pop_front();
  }
}

void SourceManager::Prune() {
  const TimePoint now = place_.clock.Now();
  while (!retired_order_.empty() && retired_order_.front().until <= now) {
    retired_.erase(retired_order_.front().id);
    retired_order_.pop_front();
  }
}

void SourceManager::ArmSweep() {
  if (!std::exchange(sweep_armed_, true)) {
    sweep_->After(kSweepInterval, Task([this] {
                    sweep_armed_ = false;
                    Sweep();
                    if (!pending_.empty()) {
                      ArmSweep();
                    }
                  }));
  }
}

void SourceManager::Sweep() {
  Prune();
  const TimePoint now = place_.clock.Now();
  std::vector<engine::HandoffId> disconnected;
  std::vector<engine::HandoffId> expired;
  for (auto& [id, pending] : pending_) {
    if (pending.destination && pending.destination->connection->PeerClosed()) {
      disconnected.push_back(id);
    } else if (now - pending.created >= kRendezvousTimeout) {
      expired.push_back(id);
    }
  }
  for (const engine::HandoffId id : disconnected) {
    Drop(id, kDisconnected, false);
  }
  for (const engine::HandoffId id : expired) {
    ++counts_.rendezvous_timeouts_total;
    Drop(id, kTimedOut, true);
  }
}

void SourceManager::SessionOver(engine::HandoffId id) {
  const auto it = active_.find(id);
  tickets_.erase(it->second.ticket);
  active_.erase(it);
  Retire(id);
  CheckClosed();
}

void SourceManager::Reject(SourceParticipant source, const char* text) {
  ++counts_.sources_rejected_total;
  place_.loop.Post([completion = std::move(source.completion), text = std::string(text)] {
    completion(Fail(Errc::kCancelled, text));
  });
}

void SourceManager::Reject(transport::BootstrapIncoming destination,
                           const transport::BootstrapMessage& message) {
  ++counts_.destinations_rejected_total;
  if (rejections_.size() >= sessions_max_) {
    ++counts_.rejections_dropped_total;
    return;
  }
  const std::uint64_t number = ++last_rejection_;
  const auto over = [this, number, alive = alive_] {
    if (*alive) {
      RejectionOver(number);
    }
  };
  destination.connection->Start(
      {[](const transport::BootstrapMessage&) {}, [over](const Status&) { over(); }});
  if (destination.connection->Send(message, Task(over))) {
    rejections_[number] = std::move(destination.connection);
  }
}

void SourceManager::RejectionOver(std::uint64_t number) {
  rejections_.erase(number);
  CheckClosed();
}

void SourceManager::Shutdown(std::function<void()> closed) {
  shut_down_ = true;
  closed_ = std::move(closed);
  while (!pending_.empty()) {
    Drop(pending_.begin()->first, kShutDown, true);
  }
  std::vector<SourceSession*> sessions;
  for (const auto& [id, active] : active_) {
    sessions.push_back(active.session.get());
  }
  for (SourceSession* session : sessions) {
    session->Shutdown();
  }
  CheckClosed();
}

void SourceManager::CheckClosed() {
  if (closed_ && active_.empty() && rejections_.empty()) {
    place_.loop.Post([closed = std::exchange(closed_, nullptr)] { closed(); });
  }
}

}  // namespace understudy::worker
