// Between the messages of the rendezvous and the words of the engine, one direction each.
#pragma once

#include "plugin/mocker/handoff/coordinator.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"
#include "understudy/mocker/mocker_options.h"
#include "understudy/transport/bootstrap_frame.h"

namespace understudy::worker {

[[nodiscard]] transport::BootstrapAction ToWire(const mocker::handoff::Action& action,
                                                engine::HandoffId handoff);
[[nodiscard]] transport::BootstrapTiming ToWire(const engine::TransferTiming& timing);
[[nodiscard]] transport::BootstrapOrder ToWire(mocker::handoff::Order order);
[[nodiscard]] transport::BootstrapEngine ToWire(mocker::EngineType type);
[[nodiscard]] transport::BootstrapActionAck AckOf(std::uint64_t action_id,
                                                  const mocker::handoff::Outcome& outcome);

[[nodiscard]] engine::TransferTiming FromWire(const transport::BootstrapTiming& timing);
[[nodiscard]] mocker::handoff::Outcome FromWire(const transport::BootstrapActionAck& ack);

/// What an operation of the engine means for the action that asked for it.
[[nodiscard]] mocker::handoff::Outcome OutcomeOf(const Result<engine::HandoffOutcome>& result);

/// The order of an engine's steps. kUnsupported: `mocker handoff does not support TRT-LLM`.
[[nodiscard]] Result<mocker::handoff::Order> OrderOf(mocker::EngineType type);

}  // namespace understudy::worker
