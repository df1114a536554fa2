// The state behind LiveBoundary. Not for others.
#pragma once

#include "plugin/mocker/handoff/command.h"
#include "plugin/mocker/handoff/command_lock.h"
#include "plugin/mocker/handoff/live_boundary.h"
#include "understudy/engine/handoff.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace understudy::mocker::handoff {

/// Commands sent and not answered, per rank.
inline constexpr std::size_t kCommandsInFlightMax = 65536;

inline constexpr const char* kNotRunning = "live Mocker engine is not running";
inline constexpr const char* kEngineGone = "live Mocker engine no longer exists";

/// Events of one registration on their way to whoever receives them.
struct EventChannel {
  std::deque<engine::HandoffEvent> waiting;  ///< at most HandoffEvents::kWaitingMax
  std::function<void(std::optional<engine::HandoffEvent>)> next;
  bool open = true;   ///< more may come
  bool heard = true;  ///< somebody holds the HandoffEvents
};

/// One registration. Its holders (controls, calls, a reserved request) keep the memory of it alive
/// after it has been unregistered.
class Route {
 public:
  Route(std::weak_ptr<BoundaryCore> boundary,
        engine::HandoffId handoff,
        std::uint64_t number,
        std::shared_ptr<const engine::Post> poster)
      : core(std::move(boundary)), id(handoff), generation(number), post(std::move(poster)) {}
  ~Route();
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;

  /// Gives `event` (none = the end) to the one who waits for it, or puts it in line.
  void Offer(std::optional<engine::HandoffEvent> event) const;

  const std::weak_ptr<BoundaryCore> core;
  const engine::HandoffId id;
  const std::uint64_t generation;
  const std::shared_ptr<const engine::Post> post;
  const std::shared_ptr<EventChannel> channel = std::make_shared<EventChannel>();
  CommandLock lock;
};

/// A prepared or live request.
struct RequestRoute {
  enum class State : std::uint8_t { kPrepared, kSubmitting, kActive, kCancelling, kClosed };
  RequestId id{};
  std::string client_id;
  State state = State::kPrepared;
  bool cancel_wanted = false;
  std::shared_ptr<Route> destination;  ///< it was admitted by a reservation
  std::vector<std::function<void(Result<bool>)>> cancel_waiters;
  std::function<void()> closed;
};

class BoundaryCore : public std::enable_shared_from_this<BoundaryCore> {
 public:
  using Reply = std::function<void(Result<engine::HandoffOutcome>)>;

  BoundaryCore(RankIndex rank, engine::TransferTiming timing, CommandPort& port, engine::Post post);

  // boundary_core.cc: registrations, the dispatcher of events, the end
  [[nodiscard]] bool Cancelled() const { return cancelled_ || !port_.Running(); }
  [[nodiscard]] Result<std::shared_ptr<Route>> Register(engine::HandoffId id);
  void Forget(const Route& route);
  void Unregister(const Route& route);
  /// `needs_registration`: having been the latest one is not enough.
  [[nodiscard]] Status CheckGeneration(const Route& route, bool needs_registration) const;
  [[nodiscard]] bool IsLatest(const Route& route) const;
  void OnSignal(const engine::HandoffSignal& signal);
  void Pump();
  void CancelAll();
  void LaneClosed(bool expected);
  void Shutdown(std::function<void(Status)> done);

  /// One command; `reply` comes unless this fails.
  [[nodiscard]] Status Send(Command::Kind kind,
                            engine::HandoffId id,
                            engine::Request request,
                            Reply reply);

  // boundary_requests.cc
  [[nodiscard]] Result<std::shared_ptr<RequestRoute>> Admit(const engine::Request& request,
                                                            std::string client_id);
  void CancelRequest(const std::shared_ptr<RequestRoute>& request,
                     std::function<void(Result<bool>)> done);
  /// `tell`: the engine ended it, its owner does not know.
  void CloseRequest(const std::shared_ptr<RequestRoute>& request, bool tell);
  /// What a submission came to; the outcome for its caller.
  [[nodiscard]] Result<engine::HandoffOutcome> Submitted(
      const std::shared_ptr<RequestRoute>& request,
      const std::shared_ptr<Route>& destination,
      Result<engine::HandoffOutcome> reply);

  [[nodiscard]] BoundarySizes sizes() const;
  BoundaryCounts& counts() { return counts_; }
  [[nodiscard]] RankIndex rank() const { return rank_; }
  [[nodiscard]] const std::shared_ptr<const engine::Post>& post() const { return post_; }

 private:
  struct LaneEvent {
    engine::HandoffId id;
    engine::HandoffEvent event;
  };
  struct Latest {
    std::uint64_t generation = 0;
    std::weak_ptr<Route> route;
  };

  void CloseRoute(const std::shared_ptr<Route>& route);
  void OnReply(const engine::HandoffSignal& signal);
  void Dispatch(LaneEvent event);
  void DispatcherFailed(std::string text);
  void FinishShutdown();
  void BeginCancel(const std::shared_ptr<RequestRoute>& request);
  void CancelReservation(const std::shared_ptr<RequestRoute>& request);
  void FinishCancel(const std::shared_ptr<RequestRoute>& request, const Result<bool>& result);

  const RankIndex rank_;
  const engine::TransferTiming timing_;
  CommandPort& port_;
  const std::shared_ptr<const engine::Post> post_;
  std::unordered_map<engine::HandoffId, std::shared_ptr<Route>> by_id_;
  std::unordered_map<engine::HandoffId, Latest> last_by_id_;
  std::unordered_map<std::string, std::shared_ptr<RequestRoute>> requests_;
  std::unordered_set<std::uint64_t> request_ids_;
  std::unordered_map<std::uint64_t, Reply> replies_;
  std::deque<LaneEvent> lane_;
  std::uint64_t last_generation_ = 0;
  std::uint64_t last_command_ = 0;
  bool cancelled_ = false;
  std::optional<std::string> dispatcher_error_;
  bool shutting_down_ = false;
  std::optional<Status> shutdown_result_;
  std::vector<std::function<void(Status)>> shutdown_waiters_;
  BoundaryCounts counts_;
};

/// As error texts show it.
[[nodiscard]] const char* NameOf(engine::HandoffOutcome outcome);

/// boundary_requests.cc: the handles that LiveBoundary::Prepare gives out.
[[nodiscard]] engine::PreparedHandoff MakePrepared(const std::shared_ptr<BoundaryCore>& core,
                                                   std::shared_ptr<RequestRoute> route,
                                                   engine::Request request);

struct Consumed {
  engine::Request request;
  std::shared_ptr<RequestRoute> route;
};
/// Takes the request out of its handle, once.
[[nodiscard]] Result<Consumed> Consume(BoundaryCore& core, engine::PreparedRequest* prepared);

/// boundary_calls.cc
[[nodiscard]] std::shared_ptr<engine::HandoffControl> MakeControl(std::shared_ptr<Route> route);

}  // namespace understudy::mocker::handoff
