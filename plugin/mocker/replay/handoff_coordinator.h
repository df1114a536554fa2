// The order of the steps by which a prompt computed in one place becomes a decode in another.
#pragma once

#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// vLLM computes the prompt first and then looks for room; SGLang the other way round.
enum class HandoffOrder : std::uint8_t { kSourceFirst, kDestinationFirst };

enum class HandoffAction : std::uint8_t {
  kSubmitPrefill,
  kReserveDestination,
  kStartTransfer,
  kActivateDestination,
  kReleaseSource,
  kCancelSource,
  kCancelDestination,
  kComplete,
};

enum class HandoffEvent : std::uint8_t {
  kSourceHeld,
  kDestinationReserved,
  kTransferred,
  kActivated,
  kReleased,
  kFailed,  ///< at either end
  kSourceCanceled,
  kDestinationCanceled,
};

/// Says what to do next. An event that does not fit (late, repeated, after a failure) asks for
/// nothing. Pure. Source: dynamo-mocker 1.3.0 common/handoff.rs.
class HandoffCoordinator {
 public:
  explicit HandoffCoordinator(HandoffOrder order) : order_(order) {}

  [[nodiscard]] HandoffAction Start();
  /// Appends to `actions`, in the order in which they are to be done.
  void On(HandoffEvent event, std::vector<HandoffAction>& actions);

  /// kComplete was asked for.
  [[nodiscard]] bool complete() const { return complete_; }
  /// It ended without a decode.
  [[nodiscard]] bool canceled() const { return failed_; }

 private:
  [[nodiscard]] bool Take(HandoffEvent event);
  void Advance(HandoffEvent event, std::vector<HandoffAction>& actions);
  void CleanUp(HandoffEvent event, std::vector<HandoffAction>& actions);

  HandoffOrder order_;
  bool source_asked_ = false;
  bool destination_asked_ = false;
  std::uint8_t seen_ = 0;  ///< a bit a HandoffEvent
  bool failed_ = false;
  bool complete_ = false;
};

}  // namespace understudy::mocker
