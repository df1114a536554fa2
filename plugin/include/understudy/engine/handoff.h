// Hand-offs, for engines that have them: a prompt computed here for another engine, or the other
// way round.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/task.h"
#include "understudy/engine/handoff_types.h"
#include "understudy/engine/types.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace understudy::engine {

/// Runs a task later on the one thread that uses an engine's Handoffs (a loop). Any thread.
using Post = std::function<void(Task)>;

/// A request that was checked and named, but not yet given to the engine. Destroying it unused
/// gives its names back.
class PreparedRequest {
 public:
  virtual ~PreparedRequest() = default;
};

/// The life of a prepared request. Destroying it cancels the request unless Finished was called.
class LiveRequest {
 public:
  virtual ~LiveRequest() = default;
  /// Its last output was seen: nothing is left to cancel, its names are free.
  virtual void Finished() = 0;
  /// Ends it in the engine; before its admission is decided that is waited for. `done` says whether
  /// the engine had something to cancel.
  virtual void Cancel(std::function<void(Result<bool>)> done) = 0;
  /// `closed` is called once if the engine ends the request by itself: it stopped, refused the
  /// request, or is gone.
  virtual void OnClosed(std::function<void()> closed) = 0;
};

/// Keep it until `done`: destroying it means that nobody waits any more. A submission or
/// reservation goes on all the same and keeps the hand-off's commands back until it is answered;
/// the others free them at once. One that has not begun never does.
class HandoffCall {
 public:
  virtual ~HandoffCall() = default;
};

/// Commands of one registration of one hand-off, one at a time; kept alone it neither keeps the
/// engine nor the registration alive. Shared by all who command it. At most kCallsWaitingMax calls
/// wait for their turn, further ones fail.
///
/// `done` is called later, never from inside a call, and not after its HandoffCall is gone. Errors
/// carry the texts of dynamo-mocker (mission.md B.4).
class HandoffControl {
 public:
  static constexpr std::size_t kCallsWaitingMax = 16;
  using Done = std::function<void(Result<HandoffOutcome>)>;

  virtual ~HandoffControl() = default;
  [[nodiscard]] virtual HandoffId handoff_id() const = 0;

  /// kSubmitted. SourceHeld follows when the prompt is computed. Needs the registration.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> SubmitPrefill(
      std::shared_ptr<PreparedRequest> request, Done done) = 0;
  /// kAccepted. DestinationReserved follows when there is room. Needs the registration.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> ReserveDestination(
      std::shared_ptr<PreparedRequest> request, Done done) = 0;
  /// kApplied or kNoop. This and the following need no registration any more, only that there was
  /// no later one.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> ReleaseSource(Done done) = 0;
  /// kApplied or kNoop.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> CancelSource(Done done) = 0;
  /// kApplied; without a reservation an error.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> ActivateDestination(Done done) = 0;
  /// kApplied or kNoop.
  [[nodiscard]] virtual std::unique_ptr<HandoffCall> CancelDestination(Done done) = 0;
};

/// What happens to one registration of one hand-off, in order. Destroying it unregisters.
class HandoffEvents {
 public:
  /// Events that wait here to be received; the next one waits in front, and everybody behind it.
  static constexpr std::size_t kWaitingMax = 8;

  virtual ~HandoffEvents() = default;
  /// `next` gets one event, or none when there will be no more; later, never from inside, and not
  /// after this object is gone. One at a time.
  virtual void Receive(std::function<void(std::optional<HandoffEvent>)> next) = 0;
};

struct HandoffRegistration {
  std::shared_ptr<HandoffControl> control;
  std::unique_ptr<HandoffEvents> events;
};

struct PreparedHandoff {
  std::shared_ptr<PreparedRequest> request;
  std::unique_ptr<LiveRequest> life;
};

/// All members on one thread, the one that Post reaches and PassBatches are applied on.
class Handoffs {
 public:
  virtual ~Handoffs() = default;

  /// An id may be registered once at a time and rank. kUnavailable: the rank is not running;
  /// kOverloaded: the id is taken, or a command of its registration before is still under way.
  [[nodiscard]] virtual Result<HandoffRegistration> Register(HandoffId id, RankIndex rank) = 0;

  /// `client_id` is what the client calls it, once at a time and rank.
  [[nodiscard]] virtual Result<PreparedHandoff> Prepare(Request request, std::string client_id) = 0;

  /// To be called for each signal of a PassBatch, between the outputs where it belongs.
  virtual void OnSignal(HandoffSignal signal) = 0;

  /// Ends all hand-offs: their events end, commands are refused. `done` when the commands under
  /// way are answered; every caller gets the same result. The engine itself runs on.
  virtual void Shutdown(std::function<void(Status)> done) = 0;
};

}  // namespace understudy::engine
