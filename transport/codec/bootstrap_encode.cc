#include "transport/codec/bootstrap_names.h"
#include "transport/codec/json_writer.h"
#include "transport/codec/rust_number.h"
#include "understudy/transport/bootstrap_frame.h"

namespace understudy::transport {
namespace {

/// Externally tagged, as the reference's library writes enums.
struct MessageWriter {
  JsonWriter& json;

  void operator()(const BootstrapRegister& message) const {
    json.BeginObject().Key("Register").BeginObject();
    json.Key("role").Text("Destination");
    json.Key("dp_rank").Number(message.dp_rank);
    json.Key("order").Text(NameIn(kOrderNames, message.order));
    json.Key("engine_type").Text(NameIn(kEngineNames, message.engine));
    json.EndObject().EndObject();
  }
  void operator()(const BootstrapRegistered&) const { json.Text("Registered"); }
  void operator()(const BootstrapAction& message) const {
    json.BeginObject().Key("Action").BeginObject();
    json.Key("id").Number(message.id);
    json.Key("action").BeginObject().Key(NameIn(kActionNames, message.kind)).BeginObject();
    json.Key("handoff_id").Text(ToText(message.handoff_id));
    if (message.kind == BootstrapAction::Kind::kStartTransfer) {
      json.Key("delay_ms").Raw(RustJsonNumber(message.delay_ms));
    }
    json.EndObject().EndObject().EndObject().EndObject();
  }
  void operator()(const BootstrapActionAck& message) const {
    json.BeginObject().Key("ActionAck").BeginObject();
    json.Key("action_id").Number(message.action_id);
    json.Key("outcome");
    const std::string_view name = NameIn(kOutcomeNames, message.outcome);
    if (message.outcome == BootstrapActionAck::Outcome::kFailed) {
      json.BeginObject().Key(name).Text(message.error).EndObject();
    } else {
      json.Text(name);
    }
    json.EndObject().EndObject();
  }
  void operator()(const BootstrapFact& message) const {
    json.BeginObject().Key("Fact").BeginObject().Key(NameIn(kFactNames, message.kind));
    json.BeginObject().Key("handoff_id").Text(ToText(message.handoff_id));
    if (message.kind == BootstrapFact::Kind::kSourceHeld) {
      json.Key("transfer_timing");
      Timing(message.timing);
    } else if (message.kind == BootstrapFact::Kind::kDestinationReserved) {
      json.Key("transferable_prompt_tokens").Number(message.transferable_prompt_tokens);
    }
    json.EndObject().EndObject().EndObject();
  }
  void operator()(const BootstrapComplete&) const { json.Text("Complete"); }
  void operator()(const BootstrapAbort& message) const { WithText("Abort", message.message); }
  void operator()(const BootstrapOverloaded&) const { json.Text("Overloaded"); }
  void operator()(const BootstrapProtocolError& message) const {
    WithText("ProtocolError", message.message);
  }

 private:
  void WithText(std::string_view name, std::string_view text) const {
    json.BeginObject().Key(name).BeginObject().Key("message").Text(text).EndObject().EndObject();
  }
  void Timing(const BootstrapTiming& timing) const {
    json.BeginObject().Key("mode").Text(NameIn(kTimingNames, timing.mode));
    json.Key("full_prompt_tokens").Number(timing.full_prompt_tokens);
    json.Key("kv_bytes_per_token");
    if (timing.kv_bytes_per_token) {
      json.Number(*timing.kv_bytes_per_token);
    } else {
      json.Null();
    }
    json.Key("bandwidth_gb_s");
    if (timing.bandwidth_gb_s) {
      json.Raw(RustJsonNumber(*timing.bandwidth_gb_s));
    } else {
      json.Null();
    }
    json.EndObject();
  }
};

}  // namespace

Status AppendBootstrapFrame(std::string& out, const BootstrapFrame& frame) {
  JsonWriter json;
  json.BeginObject().Key("identity").BeginObject();
  json.Key("handoff_id").Text(ToText(frame.identity.handoff_id));
  json.Key("bootstrap_room").Number(frame.identity.room);
  json.Key("request_id").Text(ToText(frame.identity.request_id));
  json.EndObject().Key("message");
  std::visit(MessageWriter{json}, frame.message);
  json.EndObject();
  const std::string body = json.Take();
  if (body.size() > kBootstrapBodyBytesMax) {
    return Fail(Errc::kMalformed,
                "bootstrap frame length " + std::to_string(body.size()) +
                    " is outside 1..=" + std::to_string(kBootstrapBodyBytesMax));
  }
  for (unsigned byte = 0; byte < kBootstrapLengthBytes; ++byte) {
    out += static_cast<char>(body.size() >> 8U * byte & 0xFFU);
  }
  out += body;
  return {};
}

}  // namespace understudy::transport
