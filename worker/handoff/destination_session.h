// The decode side of one hand-off, from the moment its registration was written.
#pragma once

#include "plugin/mocker/handoff/coordinator.h"
#include "understudy/base/result.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/session.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace understudy::worker {

/// All members on the loop's thread. Source: dynamo-llm 1.3.0 mocker/handoff.rs (mission.md C.5).
class DestinationSession {
 public:
  /// Answers that are kept to be repeated.
  static constexpr std::size_t kOutcomesMax = 16;

  /// `over` is called once, from the loop, with what the request's own stream has to say; the
  /// session may be destroyed then.
  DestinationSession(const SessionPlace& place,
                     HandoffRequest handoff,
                     std::unique_ptr<transport::BootstrapConnection> connection,
                     std::function<void(Status)> over);
  ~DestinationSession();
  DestinationSession(const DestinationSession&) = delete;
  DestinationSession& operator=(const DestinationSession&) = delete;

  /// Once.
  void Begin();
  /// The client of the request is gone.
  void Cancel() { EndWithoutSuccess(); }
  void Shutdown() { EndWithoutSuccess(); }

 private:
  using Action = transport::BootstrapAction;
  using Ack = transport::BootstrapActionAck;
  enum class State : std::uint8_t {
    kRunning,
    kCleaningUp,  ///< the connection is closed, the engine takes back what it may hold
    kOver,
  };
  struct Answered {
    Action action;
    Ack ack;
  };

  void OnMessage(const transport::BootstrapMessage& message);
  void OnRegistered();
  void OnSourceHeld(const engine::TransferTiming& timing);
  void OnAction(const Action& action);
  void OnComplete();
  [[nodiscard]] std::string RefusalOf(const Action& action) const;
  void Perform(const Action& action);
  void OnOutcome(const Action& action, const Result<engine::HandoffOutcome>& result);
  void Listen();
  void OnEvent(const std::optional<engine::HandoffEvent>& event);
  void OnReserved(std::uint64_t tokens);
  [[nodiscard]] bool Answer(const Action& action, Ack ack);
  [[nodiscard]] bool SendReserved(std::uint64_t tokens);
  [[nodiscard]] bool Send(const transport::BootstrapMessage& message);
  [[nodiscard]] bool ExtendDeadline(const char* too_early);
  void ArmDeadline(TimePoint at);
  void EndWithoutSuccess() { GiveUp("destination handoff ended before completion"); }
  void GiveUp(const std::string& text);
  void Finish(Status status);

  const SessionPlace place_;
  const engine::HandoffId handoff_id_;
  HandoffRequest handoff_;
  std::unique_ptr<transport::BootstrapConnection> connection_;
  std::function<void(Status)> over_;
  State state_ = State::kRunning;
  Deadline deadline_;
  std::optional<TimePoint> started_;  ///< when the source said Registered
  std::map<std::uint64_t, Answered> outcomes_;
  std::optional<Action> pending_;
  std::unique_ptr<engine::HandoffCall> call_;
  std::optional<engine::TransferTiming> timing_;
  std::optional<std::uint64_t> reserved_tokens_;
  bool reserve_answered_ = false;
  bool reserved_sent_ = false;
  bool activated_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace understudy::worker
