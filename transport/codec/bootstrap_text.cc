// Messages of the rendezvous as the reference's error texts show them.
#include "transport/codec/bootstrap_names.h"
#include "transport/codec/rust_number.h"
#include "understudy/transport/bootstrap_frame.h"

namespace understudy::transport {
namespace {

/// A string in Rust's debug form.
std::string Quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\r' || c == '\t' || c == '\0') {
      out += '\\';
      out += c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : '0';
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u{";
      out += byte < 0x10 ? "" : std::string(1, kHex[byte >> 4U]);
      out += kHex[byte & 0xFU];
      out += '}';
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Handoff(const Uuid& uuid) {
  return "handoff_id: HandoffId(" + ToText(uuid) + ")";
}

template <class T, class F>
std::string Option(const std::optional<T>& value, F text) {
  return value ? "Some(" + text(*value) + ")" : "None";
}

std::string TimingText(const BootstrapTiming& timing) {
  return "HandoffTransferTiming { mode: " + std::string(NameIn(kTimingDebugNames, timing.mode)) +
         ", full_prompt_tokens: " + std::to_string(timing.full_prompt_tokens) +
         ", kv_bytes_per_token: " +
         Option(timing.kv_bytes_per_token, [](std::uint64_t n) { return std::to_string(n); }) +
         ", bandwidth_gb_s: " + Option(timing.bandwidth_gb_s, RustDebugNumber) + " }";
}

struct TextOf {
  std::string operator()(const BootstrapRegister& message) const {
    return "Register(ParticipantRegistration { role: Destination, dp_rank: " +
           std::to_string(message.dp_rank) +
           ", order: " + std::string(NameIn(kOrderNames, message.order)) +
           ", engine_type: " + std::string(NameIn(kEngineDebugNames, message.engine)) + " })";
  }
  std::string operator()(const BootstrapRegistered&) const { return "Registered"; }
  std::string operator()(const BootstrapAction& message) const {
    std::string action(NameIn(kActionNames, message.kind));
    action += " { " + Handoff(message.handoff_id);
    if (message.kind == BootstrapAction::Kind::kStartTransfer) {
      action += ", delay_ms: " + RustDebugNumber(message.delay_ms);
    }
    return "Action(IssuedHandoffAction { id: HandoffActionId(" + std::to_string(message.id) +
           "), action: " + action + " } })";
  }
  std::string operator()(const BootstrapActionAck& message) const {
    std::string outcome(NameIn(kOutcomeNames, message.outcome));
    if (message.outcome == BootstrapActionAck::Outcome::kFailed) {
      outcome += "(" + Quoted(message.error) + ")";
    }
    return "ActionAck { action_id: HandoffActionId(" + std::to_string(message.action_id) +
           "), outcome: " + outcome + " }";
  }
  std::string operator()(const BootstrapFact& message) const {
    std::string fact(NameIn(kFactNames, message.kind));
    fact += " { " + Handoff(message.handoff_id);
    if (message.kind == BootstrapFact::Kind::kSourceHeld) {
      fact += ", transfer_timing: " + TimingText(message.timing);
    } else if (message.kind == BootstrapFact::Kind::kDestinationReserved) {
      fact += ", transferable_prompt_tokens: " + std::to_string(message.transferable_prompt_tokens);
    }
    return "Fact(" + fact + " })";
  }
  std::string operator()(const BootstrapComplete&) const { return "Complete"; }
  std::string operator()(const BootstrapAbort& message) const {
    return "Abort { message: " + Quoted(message.message) + " }";
  }
  std::string operator()(const BootstrapOverloaded&) const { return "Overloaded"; }
  std::string operator()(const BootstrapProtocolError& message) const {
    return "ProtocolError { message: " + Quoted(message.message) + " }";
  }
};

}  // namespace

std::string DebugText(const BootstrapMessage& message) {
  return std::visit(TextOf{}, message);
}

}  // namespace understudy::transport
