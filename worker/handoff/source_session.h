// The prefill side of one hand-off, from the moment both participants are there.
#pragma once

#include "plugin/mocker/handoff/coordinator.h"
#include "understudy/base/result.h"
#include "understudy/mocker/mocker_options.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/session.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// What can be seen of a hand-off from outside, the same for both orders of its steps.
enum class HandoffStep : std::uint8_t {
  kSourceHeld,
  kDestinationAccepted,
  kDestinationReserved,
  kDestinationActivated,
  kSourceReleased,
  kCompleted,
};

/// A prefill request that takes part in a hand-off.
struct SourceParticipant {
  transport::BootstrapIdentity identity;
  mocker::handoff::Order order = mocker::handoff::Order::kSourceFirst;
  mocker::EngineType engine_type = mocker::EngineType::kVllm;
  HandoffRequest handoff;
  /// Once, from the loop: what the request's own stream has to say.
  std::function<void(Status)> completion;
  std::function<void(HandoffStep)> observer;  ///< may be empty
};

/// All members on the loop's thread. Source: dynamo-llm 1.3.0 mocker/handoff.rs (mission.md C.7).
class SourceSession {
 public:
  /// `over` is called once, from the loop: the session may be destroyed then.
  SourceSession(const SessionPlace& place,
                SourceParticipant source,
                std::unique_ptr<transport::BootstrapConnection> connection,
                std::function<void()> over);
  ~SourceSession();
  SourceSession(const SourceSession&) = delete;
  SourceSession& operator=(const SourceSession&) = delete;

  /// Once.
  void Begin();
  /// The client of the request is gone.
  void Cancel() { FailIfRunning("source request was canceled"); }
  void Shutdown() { FailIfRunning("mocker is shutting down"); }

 private:
  using Action = mocker::handoff::Action;
  using Outcome = mocker::handoff::Outcome;
  enum class State : std::uint8_t {
    kRunning,
    kCompleting,  ///< the last message is being written
    kFailing,     ///< both ends are being cleaned up
    kOver,
  };

  void FailIfRunning(const char* text);
  void Run(Result<std::vector<Action>> actions);
  void Do(const Action& action);
  void SubmitPrefill(const Action& action);
  void StartTransfer(const Action& action);
  void Complete();
  [[nodiscard]] bool Send(const transport::BootstrapMessage& message);
  [[nodiscard]] engine::HandoffControl::Done LocalOutcome(std::uint64_t action_id);
  void OnLocalOutcome(std::uint64_t action_id, const Result<engine::HandoffOutcome>& result);
  void Listen();
  void OnEvent(const std::optional<engine::HandoffEvent>& event);
  void OnSourceHeld(const engine::TransferTiming& timing);
  void ApplySourceHeld(const engine::TransferTiming& timing);
  void OnMessage(const transport::BootstrapMessage& message);
  void OnAck(const transport::BootstrapActionAck& ack);
  void OnReserved(std::uint64_t tokens);
  void OnConnectionEnd(const Status& why);
  void ExtendDeadline();
  void ArmDeadline();
  void GiveUp(std::string text);
  void CleanedPart(bool& part);
  void Finish(Status status);
  void Observe(HandoffStep step);

  const SessionPlace place_;
  const engine::HandoffId handoff_;
  SourceParticipant source_;
  std::unique_ptr<transport::BootstrapConnection> connection_;
  std::function<void()> over_;
  mocker::handoff::Coordinator coordinator_;
  State state_ = State::kRunning;
  TimePoint started_{};
  TimePoint deadline_at_{};
  Deadline deadline_;
  Deadline transfer_;
  std::deque<Action> actions_;  ///< at most Coordinator::kActionsMax
  bool draining_ = false;
  std::vector<std::unique_ptr<engine::HandoffCall>> calls_;
  std::optional<std::uint64_t> submit_pending_;  ///< its action
  std::optional<engine::TransferTiming> held_early_;
  std::optional<engine::TransferTiming> timing_;
  std::optional<std::uint64_t> missing_tokens_;
  bool observed_held_ = false;
  bool observed_accepted_ = false;
  std::string failure_;
  bool source_cleaned_ = false;
  bool destination_told_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace understudy::worker
