// Messages at the border: what the engine says of a hand-off -> items of the control schema.
#pragma once

#include "understudy/engine/handoff_types.h"
#include "understudy/transport/worker_control.h"
#include "worker/handoff/wire.h"

#include <variant>

namespace understudy::worker {

[[nodiscard]] inline transport::ControlItem ItemOf(const engine::HandoffEvent& event) {
  transport::ControlItem item;
  if (const auto* held = std::get_if<engine::SourceHeld>(&event)) {
    item.kind = transport::ControlItem::Kind::kSourceHeld;
    item.timing = ToWire(held->timing);
  } else {
    item.kind = transport::ControlItem::Kind::kDestinationReserved;
    item.transferable_prompt_tokens =
        std::get<engine::DestinationReserved>(event).transferable_prompt_tokens;
  }
  return item;
}

[[nodiscard]] inline transport::ControlItem ItemOf(engine::HandoffOutcome outcome) {
  transport::ControlItem item;
  item.kind = transport::ControlItem::Kind::kOutcome;
  switch (outcome) {
    case engine::HandoffOutcome::kSubmitted:
      item.outcome = transport::ControlOutcome::kSubmitted;
      break;
    case engine::HandoffOutcome::kAccepted:
      item.outcome = transport::ControlOutcome::kAccepted;
      break;
    case engine::HandoffOutcome::kApplied:
      item.outcome = transport::ControlOutcome::kApplied;
      break;
    case engine::HandoffOutcome::kNoop:
      item.outcome = transport::ControlOutcome::kNoop;
      break;
  }
  return item;
}

}  // namespace understudy::worker
