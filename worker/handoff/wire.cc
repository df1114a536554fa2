#include "worker/handoff/wire.h"

#include <array>
#include <cstddef>

namespace understudy::worker {
namespace {

using mocker::handoff::Action;
using mocker::handoff::Order;
using mocker::handoff::Outcome;
using transport::BootstrapAction;
using transport::BootstrapActionAck;
using transport::BootstrapTiming;

// Both sides list the same words in the same order.
static_assert(static_cast<int>(Action::Kind::kSubmitPrefill) ==
              static_cast<int>(BootstrapAction::Kind::kSubmitPrefill));
static_assert(static_cast<int>(Action::Kind::kComplete) ==
              static_cast<int>(BootstrapAction::Kind::kComplete));
static_assert(static_cast<int>(Outcome::Kind::kSubmitted) ==
              static_cast<int>(BootstrapActionAck::Outcome::kSubmitted));
static_assert(static_cast<int>(Outcome::Kind::kFailed) ==
              static_cast<int>(BootstrapActionAck::Outcome::kFailed));

}  // namespace

BootstrapAction ToWire(const Action& action, engine::HandoffId handoff) {
  return {
      action.id, static_cast<BootstrapAction::Kind>(action.kind), handoff.uuid, action.delay_ms};
}

BootstrapTiming ToWire(const engine::TransferTiming& timing) {
  return {timing.mode == engine::TransferTiming::Mode::kFullPrompt
              ? BootstrapTiming::Mode::kFullPrompt
              : BootstrapTiming::Mode::kDestinationMissing,
          timing.full_prompt_tokens,
          timing.kv_bytes_per_token,
          timing.bandwidth_gb_s};
}

transport::BootstrapOrder ToWire(Order order) {
  return order == Order::kSourceFirst ? transport::BootstrapOrder::kSourceFirst
                                      : transport::BootstrapOrder::kDestinationFirst;
}

transport::BootstrapEngine ToWire(mocker::EngineType type) {
  switch (type) {
    case mocker::EngineType::kVllm:
      return transport::BootstrapEngine::kVllm;
    case mocker::EngineType::kSglang:
      return transport::BootstrapEngine::kSglang;
    case mocker::EngineType::kTrtllm:
      return transport::BootstrapEngine::kTrtllm;
  }
  return transport::BootstrapEngine::kVllm;
}

BootstrapActionAck AckOf(std::uint64_t action_id, const Outcome& outcome) {
  return {action_id, static_cast<BootstrapActionAck::Outcome>(outcome.kind), outcome.error};
}

engine::TransferTiming FromWire(const BootstrapTiming& timing) {
  return {timing.mode == BootstrapTiming::Mode::kFullPrompt
              ? engine::TransferTiming::Mode::kFullPrompt
              : engine::TransferTiming::Mode::kDestinationMissing,
          timing.full_prompt_tokens,
          timing.kv_bytes_per_token,
          timing.bandwidth_gb_s};
}

Outcome FromWire(const BootstrapActionAck& ack) {
  return {static_cast<Outcome::Kind>(ack.outcome), ack.error};
}

Outcome OutcomeOf(const Result<engine::HandoffOutcome>& result) {
  if (!result) {
    return {Outcome::Kind::kFailed, result.error().message};
  }
  switch (*result) {
    case engine::HandoffOutcome::kSubmitted:
      return {Outcome::Kind::kSubmitted, ""};
    case engine::HandoffOutcome::kAccepted:
      return {Outcome::Kind::kAccepted, ""};
    case engine::HandoffOutcome::kApplied:
      return {Outcome::Kind::kApplied, ""};
    case engine::HandoffOutcome::kNoop:
      break;
  }
  return {Outcome::Kind::kNoop, ""};
}

Result<Order> OrderOf(mocker::EngineType type) {
  switch (type) {
    case mocker::EngineType::kVllm:
      return Order::kSourceFirst;
    case mocker::EngineType::kSglang:
      return Order::kDestinationFirst;
    case mocker::EngineType::kTrtllm:
      break;
  }
  return Fail(Errc::kUnsupported, "mocker handoff does not support TRT-LLM");
}

}  // namespace understudy::worker
