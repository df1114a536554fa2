#include "plugin/mocker/replay/handoff_coordinator.h"

namespace understudy::mocker {

namespace {

constexpr std::uint8_t Bit(HandoffEvent event) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(event));
}

}  // namespace

HandoffAction HandoffCoordinator::Start() {
  const bool source = order_ == HandoffOrder::kSourceFirst;
  (source ? source_asked_ : destination_asked_) = true;
  return source ? HandoffAction::kSubmitPrefill : HandoffAction::kReserveDestination;
}

bool HandoffCoordinator::Take(HandoffEvent event) {
  const bool fresh = (seen_ & Bit(event)) == 0;
  seen_ = static_cast<std::uint8_t>(seen_ | Bit(event));
  return fresh;
}

void HandoffCoordinator::On(HandoffEvent event, std::vector<HandoffAction>& actions) {
  if (complete_ || !Take(event)) {
    return;
  }
  if (failed_ || event == HandoffEvent::kFailed) {
    CleanUp(event, actions);
  } else {
    Advance(event, actions);
  }
}

void HandoffCoordinator::Advance(HandoffEvent event, std::vector<HandoffAction>& actions) {
  const auto seen = [this](HandoffEvent e) { return (seen_ & Bit(e)) != 0; };
  switch (event) {
    case HandoffEvent::kSourceHeld:
    case HandoffEvent::kDestinationReserved:
      if (!destination_asked_) {
        destination_asked_ = true;
        actions.push_back(HandoffAction::kReserveDestination);
      } else if (!source_asked_) {
        source_asked_ = true;
        actions.push_back(HandoffAction::kSubmitPrefill);
      } else if (seen(HandoffEvent::kSourceHeld) && seen(HandoffEvent::kDestinationReserved)) {
        actions.push_back(HandoffAction::kStartTransfer);
      }
      return;
    case HandoffEvent::kTransferred:
      actions.push_back(HandoffAction::kActivateDestination);
      return;
    case HandoffEvent::kActivated:
      actions.push_back(HandoffAction::kReleaseSource);
      return;
    case HandoffEvent::kReleased:
      complete_ = true;
      actions.push_back(HandoffAction::kComplete);
      return;
    case HandoffEvent::kFailed:
    case HandoffEvent::kSourceCanceled:
    case HandoffEvent::kDestinationCanceled:
      return;
  }
}

void HandoffCoordinator::CleanUp(HandoffEvent event, std::vector<HandoffAction>& actions) {
  const auto seen = [this](HandoffEvent e) { return (seen_ & Bit(e)) != 0; };
  if (event == HandoffEvent::kFailed) {
    failed_ = true;
    if (source_asked_ && !seen(HandoffEvent::kReleased)) {
      actions.push_back(HandoffAction::kCancelSource);
    }
    if (destination_asked_) {
      actions.push_back(HandoffAction::kCancelDestination);
    }
  }
  const bool source_done =
      !source_asked_ || seen(HandoffEvent::kReleased) || seen(HandoffEvent::kSourceCanceled);
  const bool destination_done = !destination_asked_ || seen(HandoffEvent::kDestinationCanceled);
  if (source_done && destination_done) {
    complete_ = true;
    actions.push_back(HandoffAction::kComplete);
  }
}

}  // namespace understudy::mocker
