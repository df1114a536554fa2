#include "worker/handoff/destinations.h"

#include <utility>

namespace understudy::worker {

Destinations::Destinations(const SessionPlace& place, HandoffOwner owner)
    : place_(place), owner_(std::move(owner)) {}

Destinations::~Destinations() {
  *alive_ = false;
}

void Destinations::Begin(HandoffPart part,
                         HandoffRequest handoff,
                         const transport::BootstrapTarget& target,
                         const transport::BootstrapRegister& registration) {
  const RequestId id = part.request;
  owner_.metrics.Begun();
  part.life->OnClosed([this, id, alive = alive_] {
    if (*alive) {
      EngineClosed(id);
    }
  });
  Entry& entry = entries_[id];
  entry.part = std::move(part);
  entry.handoff = std::move(handoff);
  entry.connection = transport::DialBootstrap(
      place_.loop, target, entry.part.identity, registration, [this, id](const Status& open) {
        Opened(id, open);
      });
}

void Destinations::Opened(RequestId id, const Status& open) {
  const auto it = entries_.find(id);
  Entry& entry = it->second;
  if (!open) {
    LosePart(it, FailWith("bootstrap connection failed", open.error()));
    return;
  }
  entry.session = std::make_unique<DestinationSession>(
      place_, std::move(entry.handoff), std::move(entry.connection), [this, id](const Status& end) {
        SessionOver(id, end);
      });
  entry.session->Begin();
}

void Destinations::SessionOver(RequestId id, const Status& status) {
  const auto it = entries_.find(id);
  Entry& entry = it->second;
  if (!status || entry.cancelled) {
    LosePart(it, status);
    return;
  }
  PartOver(entry.part, place_, owner_.metrics, status, false);
  if (entry.answered) {
    Erase(it);
    return;
  }
  entry.handed_over = true;
  entry.session.reset();
}

void Destinations::LosePart(Entries::iterator it, const Status& status) {
  const Entry& entry = it->second;
  const RequestId id = it->first;
  PartOver(entry.part, place_, owner_.metrics, status, entry.cancelled);
  const bool tell = !entry.cancelled && !entry.answered;
  Erase(it);
  if (tell) {
    owner_.ended(id, status);
  }
}

void Destinations::LastToken(RequestId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    return;
  }
  it->second.part.life->Finished();
  it->second.answered = true;
  if (it->second.handed_over) {
    Erase(it);
  }
}

void Destinations::Cancel(RequestId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || std::exchange(it->second.cancelled, true)) {
    return;
  }
  Entry& entry = it->second;
  entry.part.life.reset();
  if (entry.session) {
    entry.session->Cancel();
  } else {
    if (!entry.handed_over) {  // it was still dialling
      PartOver(entry.part, place_, owner_.metrics, {}, true);
    }
    Erase(it);
  }
}

/// The engine ended the request by itself; before the hand-off is over its session tells why.
void Destinations::EngineClosed(RequestId id) {
  const auto it = entries_.find(id);
  if (it != entries_.end() && it->second.handed_over) {
    Erase(it);
    owner_.ended(id, Fail(Errc::kUnavailable, "All output transmitters closed"));
  }
}

void Destinations::Erase(Entries::iterator it) {
  entries_.erase(it);
  if (!closed_) {
    return;
  }
  for (const auto& [id, entry] : entries_) {
    if (entry.session) {
      return;
    }
  }
  place_.loop.Post([closed = std::exchange(closed_, nullptr)] { closed(); });
}

void Destinations::Shutdown(std::function<void()> closed) {
  std::vector<RequestId> dialling;
  std::vector<DestinationSession*> sessions;
  for (const auto& [id, entry] : entries_) {
    if (entry.session) {
      sessions.push_back(entry.session.get());
    } else if (!entry.handed_over) {
      dialling.push_back(id);
    }
  }
  for (const RequestId id : dialling) {
    LosePart(entries_.find(id), Fail(Errc::kUnavailable, "mocker is shutting down"));
  }
  if (sessions.empty()) {
    place_.loop.Post([closed = std::move(closed)] { closed(); });
    return;
  }
  closed_ = std::move(closed);
  for (auto* session : sessions) {
    session->Shutdown();
  }
}

std::vector<HandoffSummary> Destinations::Summaries() const {
  std::vector<HandoffSummary> all;
  for (const auto& [id, entry] : entries_) {
    const char* state = entry.cancelled     ? "cancelled"
                        : entry.handed_over ? "handed over"
                        : entry.session     ? "destination"
                                            : "dialling";
    all.push_back(Summarize(entry.part, state, place_.clock.Now()));
  }
  return all;
}

}  // namespace understudy::worker
