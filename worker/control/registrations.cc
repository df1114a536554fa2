#include "worker/control/registrations.h"

#include "worker/control/handoff_items.h"
#include "worker/log/log.h"

#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.control";

std::string Named(const Registrations::Key& key) {
  return "handoff " + DebugText(key.handoff);
}

}  // namespace

Registrations::Known* Registrations::Current(const Key& key, std::uint64_t generation) {
  const auto found = known_.find(key);
  return found != known_.end() && found->second.generation == generation ? &found->second : nullptr;
}

void Registrations::Register(ControlStreams::Id stream, const Key& key) {
  if (known_.size() >= kKnownMax && !known_.contains(key)) {
    streams_.Refuse(stream,
                    {Errc::kOverloaded,
                     "controllers have " + std::to_string(kKnownMax) + " hand-offs already"});
    return;
  }
  auto made = handoffs_.Register(key.handoff, key.rank);
  if (!made) {
    streams_.Refuse(stream, made.error());
    return;
  }
  Known& known = known_[key];
  if (known.events) {  // the engine has ended it, and says so only now
    Count(key.rank, false);
    streams_.Finish(known.stream);
  }
  known = {};
  known.generation = ++last_generation_;
  known.stream = stream;
  known.control = std::move(made->control);
  known.events = std::move(made->events);
  Count(key.rank, true);
  const auto generation = known.generation;
  streams_.OnGone(stream, [this, key, generation] { Unregister(key, generation); });
  transport::ControlItem item;
  item.kind = transport::ControlItem::Kind::kRegistered;
  item.generation = generation;
  streams_.Send(stream, item);
  Receive(key, generation);
}

Result<std::shared_ptr<engine::HandoffControl>> Registrations::Find(const Key& key,
                                                                    std::uint64_t generation,
                                                                    bool needs_registration) const {
  const auto found = known_.find(key);
  const bool registered = found != known_.end() && found->second.events != nullptr;
  if (needs_registration && !registered) {
    return Fail(Errc::kUnavailable, Named(key) + " lifecycle route is no longer registered");
  }
  if (found == known_.end() || found->second.generation != generation) {
    return Fail(Errc::kUnavailable, Named(key) + " control belongs to an earlier registration");
  }
  return found->second.control;
}

std::size_t Registrations::RegisteredAt(RankIndex rank) const {
  const auto found = registered_.find(rank);
  return found == registered_.end() ? 0 : found->second;
}

void Registrations::Count(RankIndex rank, bool more) {
  const auto entry = registered_.try_emplace(rank, 0).first;
  entry->second += more ? 1U : -std::size_t{1};
  registered_total_ += more ? 1U : -std::size_t{1};
  if (entry->second == 0) {
    registered_.erase(entry);
  }
  on_count_(registered_total_);
}

/// Takes the next event when the controller has read the ones before: until then it waits where
/// the engine bounds it.
void Registrations::Receive(const Key& key, std::uint64_t generation) {
  Known* known = Current(key, generation);
  if (known == nullptr || !known->events) {
    return;
  }
  if (!streams_.HasRoom(known->stream)) {
    streams_.OnRoom(known->stream, [this, key, generation] {
      if (const Known* now = Current(key, generation)) {
        streams_.OnRoom(now->stream, nullptr);
        Receive(key, generation);
      }
    });
    return;
  }
  known->events->Receive([this, key, generation](std::optional<engine::HandoffEvent> event) {
    OnEvent(key, generation, event);
  });
}

void Registrations::OnEvent(const Key& key,
                            std::uint64_t generation,
                            const std::optional<engine::HandoffEvent>& event) {
  Known* known = Current(key, generation);
  if (known == nullptr) {
    return;
  }
  if (event) {
    streams_.Send(known->stream, ItemOf(*event));
    Receive(key, generation);
    return;
  }
  const auto stream = known->stream;
  Unregister(key, generation);
  streams_.Finish(stream);
}

void Registrations::Unregister(const Key& key, std::uint64_t generation) {
  Known* known = Current(key, generation);
  if (known == nullptr || !known->events) {
    return;
  }
  known->events.reset();
  Count(key.rank, false);
  CleanUpLater(key, generation);
}

void Registrations::CleanUpLater(const Key& key, std::uint64_t generation) {
  Known& known = known_.at(key);
  if (!known.orphan) {
    known.orphan = loop_.NewTimer();
  }
  known.orphan->After(orphan_wait_, [this, key, generation] { CleanUp(key, generation); });
}

/// A reservation goes with the stream of its request, a computed prompt would be held for ever.
void Registrations::CleanUp(const Key& key, std::uint64_t generation) {
  Known* known = Current(key, generation);
  if (known == nullptr) {
    return;
  }
  if (busy_(key)) {
    CleanUpLater(key, generation);
    return;
  }
  known->cleanup = known->control->CancelSource(
      [this, key, generation](const Result<engine::HandoffOutcome>& r) {
        if (r && *r == engine::HandoffOutcome::kApplied) {
          Log(LogLevel::kWarn,
              kTarget,
              "freed what a hand-off held whose controller is gone",
              {{"handoff_id", ToText(key.handoff.uuid)}});
        }
        if (Current(key, generation) != nullptr) {
          known_.erase(key);
        }
      });
}

}  // namespace understudy::worker
