#include "transport/codec/bootstrap_names.h"
#include "transport/codec/value_sinks.h"
#include "transport/codec/worker_control_names.h"
#include "understudy/transport/worker_control.h"

#include <initializer_list>
#include <utility>

namespace understudy::transport {
namespace {

using namespace std::string_view_literals;
using Kind = ControlItem::Kind;

template <class Sink>
void Number(Sink& sink, std::string_view key, std::uint64_t number) {
  sink.Key(key);
  sink.Uint(number);
}
template <class Sink>
void Word(Sink& sink, std::string_view key, std::string_view word) {
  sink.Key(key);
  sink.Text(word);
}

/// Whether `command` has something to say there; what an operation needs it says always.
bool Says(const ControlCommand& command, unsigned member) {
  if ((kControlMembers[static_cast<std::size_t>(command.op)].needed >> member & 1U) != 0) {
    return true;
  }
  switch (member) {
    case kVersionMember:
    case kOpMember:
      return true;
    case kRankMember:
      return command.rank.has_value();
    case kIntervalMember:
      return command.interval_ms.has_value();
    case kInUseMember:
      return command.refuse_in_use;
    case kWaitMember:
      return command.wait;
    case kRequestIdMember:
      return !command.request_id.empty();
    default:
      return false;
  }
}

template <class Sink>
void WriteMember(Sink& sink, const ControlCommand& command, unsigned member) {
  sink.Key(kControlMemberNames[member]);
  switch (member) {
    case kVersionMember:
      sink.Uint(kControlVersion);
      break;
    case kOpMember:
      sink.Text(NameOf(command.op));
      break;
    case kRankMember:
      sink.Uint(*command.rank);
      break;
    case kIntervalMember:
      sink.Uint(*command.interval_ms);
      break;
    case kInUseMember:
      sink.Text(NameIn(kInUseNames, command.refuse_in_use));
      break;
    case kWaitMember:
      sink.Bool(command.wait);
      break;
    case kHandoffMember:
      sink.Text(ToText(command.handoff_id));
      break;
    case kGenerationMember:
      sink.Uint(command.generation);
      break;
    case kRequestIdMember:
      sink.PeerText(command.request_id);
      break;
    case kTokenIdsMember:
      sink.Array(command.token_ids.size());
      for (const std::uint32_t token : command.token_ids) {
        sink.Uint(token);
      }
      sink.EndArray();
      break;
    default:
      sink.Uint(command.max_tokens);
  }
}

template <class Sink>
void Write(Sink& sink, const ControlCommand& command) {
  std::size_t count = 0;
  for (unsigned member = 0; member < kControlMemberCount; ++member) {
    count += Says(command, member) ? 1U : 0U;
  }
  sink.Map(count);
  for (unsigned member = 0; member < kControlMemberCount; ++member) {
    if (Says(command, member)) {
      WriteMember(sink, command, member);
    }
  }
  sink.EndMap();
}

template <class Sink>
void WriteRanks(Sink& sink, const ControlItem& item) {
  sink.Key("ranks");
  sink.Array(item.ranks.size());
  for (const ControlRank& rank : item.ranks) {
    if (item.kind == Kind::kStats) {
      sink.Map(8);
      Number(sink, "rank", rank.rank);
      Number(sink, "requests_running", rank.requests_running);
      Number(sink, "requests_waiting", rank.requests_waiting);
      Number(sink, "blocks_used", rank.blocks_used);
      Number(sink, "blocks_cached", rank.blocks_cached);
      Number(sink, "blocks_total", rank.blocks_total);
      Number(sink, "handoffs", rank.handoffs);
      Number(sink, "sessions", rank.sessions);
    } else {
      sink.Map(4);
      Number(sink, "rank", rank.rank);
      Number(sink, "blocks_cleared", rank.blocks_cleared);
      Number(sink, "blocks_in_use", rank.blocks_in_use);
      sink.Key("refused");
      sink.Bool(rank.refused);
    }
    sink.EndMap();
  }
  sink.EndArray();
}

template <class Sink>
void WriteTiming(Sink& sink, const BootstrapTiming& timing) {
  sink.Key("transfer_timing");
  sink.Map(4);
  Word(sink, "mode", NameIn(kTimingNames, timing.mode));
  Number(sink, "full_prompt_tokens", timing.full_prompt_tokens);
  sink.Key("kv_bytes_per_token");
  if (timing.kv_bytes_per_token) {
    sink.Uint(*timing.kv_bytes_per_token);
  } else {
    sink.Null();
  }
  sink.Key("bandwidth_gb_s");
  if (timing.bandwidth_gb_s) {
    sink.Double(*timing.bandwidth_gb_s);
  } else {
    sink.Null();
  }
  sink.EndMap();
}

/// Members of an item besides its type.
std::size_t MembersOf(Kind kind) {
  return kind == Kind::kStats || kind == Kind::kState ? 3 : 1;
}

template <class Sink>
void WriteItem(Sink& sink, const ControlItem& item) {
  sink.Map(1 + MembersOf(item.kind));
  Word(sink, "type", NameOf(item.kind));
  switch (item.kind) {
    case Kind::kStats:
      Word(sink, "state", NameOf(item.state));
      Number(sink, "requests", item.requests);
      WriteRanks(sink, item);
      break;
    case Kind::kCleared:
      WriteRanks(sink, item);
      break;
    case Kind::kState:
      Word(sink, "state", NameOf(item.state));
      sink.Key("changed");
      sink.Bool(item.changed);
      Number(sink, "requests", item.requests);
      break;
    case Kind::kRegistered:
      Number(sink, "generation", item.generation);
      break;
    case Kind::kOutcome:
      Word(sink, "outcome", NameOf(item.outcome));
      break;
    case Kind::kSourceHeld:
      WriteTiming(sink, item.timing);
      break;
    case Kind::kDestinationReserved:
      Number(sink, "transferable_prompt_tokens", item.transferable_prompt_tokens);
      break;
    case Kind::kToken:
      Number(sink, "token", item.token);
      break;
    case Kind::kFinished:
      sink.Key("reason");
      sink.PeerText(item.reason);
      break;
  }
  sink.EndMap();
}

/// {"data":{"data":<what `write` writes>},"complete_final":false}, as a frame.
template <class Write>
void AppendAnnotated(std::string& out, PayloadCodec codec, Write write) {
  const auto wrap = [&](auto& sink) {
    sink.Map(2);
    sink.Key("data");
    sink.Map(1);
    sink.Key("data");
    write(sink);
    sink.EndMap();
    sink.Key("complete_final");
    sink.Bool(false);
    sink.EndMap();
  };
  std::string body;
  if (codec == PayloadCodec::kJson) {
    JsonSink sink;
    wrap(sink);
    body = sink.Take();
  } else {
    MsgpackSink sink(body);
    wrap(sink);
  }
  AppendTwoPart(out, {}, body);
}

}  // namespace

std::string_view NameOf(ControlOp op) {
  return NameIn(kControlOpNames, op);
}
std::string_view NameOf(ControlState state) {
  return NameIn(kControlStateNames, state);
}
std::string_view NameOf(ControlOutcome outcome) {
  return NameIn(kControlOutcomeNames, outcome);
}
std::string_view NameOf(ControlItem::Kind kind) {
  return NameIn(kControlItemNames, kind);
}

std::string EncodeControlCommand(PayloadCodec codec, const ControlCommand& command) {
  if (codec == PayloadCodec::kJson) {
    JsonSink sink;
    Write(sink, command);
    return sink.Take();
  }
  std::string out;
  MsgpackSink sink(out);
  Write(sink, command);
  return out;
}

void AppendControlItem(std::string& out, PayloadCodec codec, const ControlItem& item) {
  AppendAnnotated(out, codec, [&](auto& sink) { WriteItem(sink, item); });
}

void AppendStatusMessage(std::string& out,
                         PayloadCodec codec,
                         bool success,
                         std::string_view message) {
  AppendAnnotated(out, codec, [&](auto& sink) {
    sink.Map(2);
    Word(sink, "status", success ? "success"sv : "error"sv);
    sink.Key("message");
    sink.PeerText(message);
    sink.EndMap();
  });
}

}  // namespace understudy::transport
