#include "worker/handoff/sources.h"

#include <utility>

namespace understudy::worker {

Sources::Sources(const SessionPlace& place, HandoffOwner owner, std::size_t sessions_max)
    : place_(place), owner_(std::move(owner)), sessions_max_(sessions_max) {}

Sources::~Sources() {
  *alive_ = false;
}

Status Sources::Listen(const std::vector<std::uint16_t>& ports) {
  for (const auto port : ports) {
    transport::BootstrapListener::Options options;
    options.port = port;
    options.pending_max = sessions_max_;
    auto listener = transport::ListenForBootstrap(place_.loop, options);
    if (!listener) {
      workers_.clear();
      return FailWith("bootstrap port " + std::to_string(port), listener.error());
    }
    workers_.push_back(
        {std::move(*listener), std::make_unique<SourceManager>(place_, sessions_max_)});
  }
  return {};
}

void Sources::Serve() {
  for (auto& worker : workers_) {
    worker.listener->Take(
        [manager = worker.manager.get()](transport::BootstrapIncoming destination) {
          manager->OnDestination(std::move(destination));
        });
  }
}

std::vector<std::uint16_t> Sources::ports() const {
  std::vector<std::uint16_t> ports;
  for (const auto& worker : workers_) {
    ports.push_back(worker.listener ? worker.listener->port() : std::uint16_t{0});
  }
  return ports;
}

Status Sources::Begin(HandoffPart part, SourceParticipant participant) {
  const RequestId id = part.request;
  participant.completion = [this, id, alive = alive_](const Status& status) {
    if (*alive) {
      Over(id, status);
    }
  };
  auto& manager = *workers_[part.worker].manager;
  UNDERSTUDY_TRY(const auto ticket, manager.Offer(std::move(participant)));
  owner_.metrics.Begun();
  entries_.emplace(id, Entry{std::move(part), ticket});
  return {};
}

bool Sources::LastToken(RequestId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    return false;
  }
  it->second.part.life->Finished();
  return true;
}

void Sources::Cancel(RequestId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || std::exchange(it->second.cancelled, true)) {
    return;
  }
  it->second.part.life.reset();
  workers_[it->second.part.worker].manager->Cancel(it->second.ticket);
}

void Sources::Over(RequestId id, const Status& status) {
  const auto it = entries_.find(id);
  const Entry entry = std::move(it->second);
  entries_.erase(it);
  PartOver(entry.part, place_, owner_.metrics, status, entry.cancelled);
  if (!entry.cancelled) {
    owner_.ended(id, status);
  }
}

void Sources::Shutdown(std::function<void()> closed) {
  closing_ = 1;  // this call, until all are asked
  const auto one_less = [this, closed = std::move(closed)] {
    if (--closing_ == 0) {
      for (auto& worker : workers_) {
        worker.listener.reset();
      }
      closed();
    }
  };
  for (auto& worker : workers_) {
    ++closing_;
    worker.manager->Shutdown(one_less);
  }
  place_.loop.Post([one_less, alive = alive_] {
    if (*alive) {
      one_less();
    }
  });
}

void Sources::AddTotals(HandoffMetrics::Totals& totals) const {
  for (const auto& worker : workers_) {
    totals.pending += worker.manager->pending();
    const auto& sources = worker.manager->counts();
    totals.sources.rendezvous_timeouts_total += sources.rendezvous_timeouts_total;
    totals.sources.sources_rejected_total += sources.sources_rejected_total;
    totals.sources.destinations_rejected_total += sources.destinations_rejected_total;
    if (!worker.listener) {
      continue;
    }
    const auto& from = worker.listener->counts();
    auto& to = totals.connections;
    to.registered_total += from.registered_total;
    to.refused_total += from.refused_total;
    to.dropped_total += from.dropped_total;
    to.bad_total += from.bad_total;
    to.cut_off_total += from.cut_off_total;
    to.timed_out_total += from.timed_out_total;
  }
}

std::vector<HandoffSummary> Sources::Summaries() const {
  std::vector<HandoffSummary> all;
  for (const auto& [id, entry] : entries_) {
    const char* state = entry.cancelled ? "cancelled" : "source";
    all.push_back(Summarize(entry.part, state, place_.clock.Now()));
  }
  return all;
}

}  // namespace understudy::worker
