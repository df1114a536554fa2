#include "plugin/mocker/handoff/boundary_core.h"

#include "understudy/base/assert.h"

namespace understudy::mocker::handoff {

using engine::HandoffEvent;
using engine::HandoffId;
using engine::HandoffSignal;

namespace {

std::string Named(HandoffId id) {
  return "handoff " + DebugText(id);
}

}  // namespace

Route::~Route() {
  if (const auto boundary = core.lock()) {
    boundary->Forget(*this);
  }
}

void Route::Offer(std::optional<HandoffEvent> event) const {
  if (!channel->next) {
    if (event) {
      channel->waiting.push_back(*event);
    }
    return;  // the end is seen by the next Receive
  }
  (*post)([held = channel, next = std::exchange(channel->next, nullptr), event] {
    if (held->heard) {
      next(event);
    }
  });
}

BoundaryCore::BoundaryCore(RankIndex rank,
                           engine::TransferTiming timing,
                           CommandPort& port,
                           engine::Post post)
    : rank_(rank),
      timing_(timing),
      port_(port),
      post_(std::make_shared<const engine::Post>(std::move(post))) {}

Result<std::shared_ptr<Route>> BoundaryCore::Register(HandoffId id) {
  if (Cancelled()) {
    return Fail(Errc::kUnavailable, kNotRunning);
  }
  const auto last = last_by_id_.find(id);
  if (last != last_by_id_.end()) {
    const auto earlier = last->second.route.lock();
    if (earlier && earlier->lock.held()) {
      return Fail(Errc::kOverloaded, Named(id) + " still has a scheduler command in progress");
    }
  }
  if (by_id_.contains(id)) {
    return Fail(Errc::kOverloaded, Named(id) + " already has a lifecycle route");
  }
  auto route = std::make_shared<Route>(weak_from_this(), id, ++last_generation_, post_);
  by_id_[id] = route;
  last_by_id_[id] = {route->generation, route};
  if (Cancelled()) {  // another thread stopped the rank meanwhile
    CloseRoute(route);
    return Fail(Errc::kUnavailable, kNotRunning);
  }
  ++counts_.registered_total;
  return route;
}

void BoundaryCore::Forget(const Route& route) {
  const auto last = last_by_id_.find(route.id);
  if (last != last_by_id_.end() && last->second.generation == route.generation) {
    last_by_id_.erase(last);
  }
}

void BoundaryCore::Unregister(const Route& route) {
  const auto it = by_id_.find(route.id);
  if (it != by_id_.end() && it->second.get() == &route) {
    const std::shared_ptr<Route> kept = it->second;
    CloseRoute(kept);
    Pump();  // its events may have been in front of others
  }
}

void BoundaryCore::CloseRoute(const std::shared_ptr<Route>& route) {
  route->channel->open = false;
  if (route->channel->waiting.empty()) {
    route->Offer(std::nullopt);
  }
  const auto it = by_id_.find(route->id);
  if (it != by_id_.end() && it->second == route) {
    by_id_.erase(it);
  }
}

bool BoundaryCore::IsLatest(const Route& route) const {
  const auto last = last_by_id_.find(route.id);
  return last != last_by_id_.end() && last->second.generation == route.generation;
}

Status BoundaryCore::CheckGeneration(const Route& route, bool needs_registration) const {
  const auto it = by_id_.find(route.id);
  if (it != by_id_.end() && it->second.get() == &route) {
    return {};
  }
  if (it == by_id_.end() && needs_registration) {
    return Fail(Errc::kUnavailable, Named(route.id) + " lifecycle route is no longer registered");
  }
  if (it == by_id_.end() && IsLatest(route)) {
    return {};
  }
  return Fail(Errc::kUnavailable, Named(route.id) + " control belongs to an earlier registration");
}

Status BoundaryCore::Send(Command::Kind kind, HandoffId id, engine::Request request, Reply reply) {
  constexpr const char* kNotAccepting = "Mocker scheduler is not accepting commands";
  if (replies_.size() >= kCommandsInFlightMax) {
    return Fail(Errc::kOverloaded, kNotAccepting);
  }
  const std::uint64_t number = ++last_command_;
  if (Status sent = port_.Send({kind, id, rank_, number, std::move(request)}); !sent) {
    return Fail(sent.error().code,
                sent.error().code == Errc::kUnavailable ? kNotAccepting : sent.error().message);
  }
  ++counts_.commands_total;
  replies_.emplace(number, std::move(reply));
  return {};
}

void BoundaryCore::OnSignal(const HandoffSignal& signal) {
  switch (signal.kind) {
    case HandoffSignal::Kind::kReply:
      OnReply(signal);
      return;
    case HandoffSignal::Kind::kSourceHeld: {
      engine::TransferTiming timing = timing_;
      timing.full_prompt_tokens = signal.tokens;
      Dispatch({signal.handoff, engine::SourceHeld{timing}});
      return;
    }
    case HandoffSignal::Kind::kDestinationReserved:
      Dispatch({signal.handoff, engine::DestinationReserved{signal.tokens}});
      return;
  }
  DispatcherFailed("signal of an unknown kind");
}

void BoundaryCore::OnReply(const HandoffSignal& signal) {
  const auto it = replies_.find(signal.command);
  if (it == replies_.end()) {
    DispatcherFailed("answer to command " + std::to_string(signal.command) +
                     ", which is not under way");
    return;
  }
  const Reply reply = std::move(it->second);
  replies_.erase(it);
  if (signal.error.empty()) {
    reply(signal.outcome);
  } else {
    reply(Fail(Errc::kInternal, signal.error));
  }
  FinishShutdown();
}

void BoundaryCore::Dispatch(LaneEvent event) {
  if (cancelled_) {
    ++counts_.events_dropped_total;
    return;
  }
  if (lane_.size() >= kLaneEventsMax) {
    const auto it = by_id_.find(lane_.front().id);
    UNDERSTUDY_ASSERT(it != by_id_.end());  // and full: Pump stopped at it
    const std::shared_ptr<Route> blocking = it->second;
    ++counts_.lane_closed_total;
    CloseRoute(blocking);
  }
  lane_.push_back(event);
  Pump();
}

void BoundaryCore::Pump() {
  while (!lane_.empty()) {
    const auto it = by_id_.find(lane_.front().id);
    if (it == by_id_.end()) {
      ++counts_.events_dropped_total;
    } else if (it->second->channel->waiting.size() < engine::HandoffEvents::kWaitingMax) {
      it->second->Offer(lane_.front().event);
      ++counts_.events_total;
    } else {
      return;  // until its consumer has taken one
    }
    lane_.pop_front();
  }
}

void BoundaryCore::DispatcherFailed(std::string text) {
  if (!dispatcher_error_) {
    dispatcher_error_ = "live Mocker lifecycle dispatcher task failed: " + std::move(text);
  }
  CancelAll();
}

void BoundaryCore::CancelAll() {
  cancelled_ = true;
  counts_.events_dropped_total += lane_.size();
  lane_.clear();
  std::vector<std::shared_ptr<RequestRoute>> requests;
  for (const auto& [name, request] : requests_) {
    requests.push_back(request);
  }
  for (const auto& request : requests) {
    if (request->state == RequestRoute::State::kActive) {
      port_.CancelRequest(request->id, rank_);
    }
    CloseRequest(request, true);
  }
  std::vector<std::shared_ptr<Route>> routes;
  for (const auto& [id, route] : by_id_) {
    routes.push_back(route);
  }
  for (const auto& route : routes) {
    CloseRoute(route);
  }
}

void BoundaryCore::LaneClosed(bool expected) {
  if (!expected && !cancelled_ && !dispatcher_error_) {
    dispatcher_error_ = "live Mocker lifecycle lane closed unexpectedly";
  }
  CancelAll();
  while (!replies_.empty()) {
    const Reply reply = std::move(replies_.begin()->second);
    replies_.erase(replies_.begin());
    reply(Fail(Errc::kUnavailable, "Mocker scheduler dropped a command acknowledgement"));
  }
  FinishShutdown();
}

void BoundaryCore::Shutdown(std::function<void(Status)> done) {
  shutdown_waiters_.push_back(std::move(done));
  shutting_down_ = true;
  CancelAll();
  FinishShutdown();
}

void BoundaryCore::FinishShutdown() {
  if (!shutting_down_ || !replies_.empty()) {
    return;
  }
  if (!shutdown_result_) {
    if (dispatcher_error_) {
      shutdown_result_ =
          Fail(Errc::kInternal, "live Mocker lifecycle dispatcher failed: " + *dispatcher_error_);
    } else if (!requests_.empty()) {
      shutdown_result_ = Fail(Errc::kInternal, "live Mocker shutdown left active request routes");
    } else if (!by_id_.empty()) {
      shutdown_result_ = Fail(Errc::kInternal, "live Mocker shutdown left active handoff routes");
    } else {
      shutdown_result_ = Status();
    }
  }
  for (auto& done : std::exchange(shutdown_waiters_, {})) {
    (*post_)([done = std::move(done), result = *shutdown_result_] { done(result); });
  }
}

BoundarySizes BoundaryCore::sizes() const {
  return {.registered = by_id_.size(),
          .remembered = last_by_id_.size(),
          .requests = requests_.size(),
          .commands = replies_.size(),
          .events_waiting = lane_.size()};
}

const char* NameOf(engine::HandoffOutcome outcome) {
  switch (outcome) {
    case engine::HandoffOutcome::kSubmitted:
      return "Submitted";
    case engine::HandoffOutcome::kAccepted:
      return "DestinationAccepted";
    case engine::HandoffOutcome::kApplied:
      return "Applied";
    case engine::HandoffOutcome::kNoop:
      return "Noop";
  }
  return "?";
}

}  // namespace understudy::mocker::handoff
