#include "transport/codec/bootstrap_names.h"
#include "transport/codec/field_readers.h"
#include "transport/codec/whole_body.h"
#include "transport/codec/worker_control_names.h"
#include "understudy/transport/worker_control.h"

#include <string>

namespace understudy::transport {
namespace {

constexpr const char* kRequest = "control request";
constexpr const char* kItem = "control item";
constexpr std::size_t kNesting = 16;

template <std::size_t N>
std::string Listed(const std::array<std::string_view, N>& names) {
  std::string list;
  for (const auto name : names) {
    (list += list.empty() ? "" : ", ") += name;
  }
  return list;
}

template <class V, class Enum, std::size_t N>
bool ReadWord(V&& value,
              std::string_view field,
              const std::array<std::string_view, N>& names,
              Enum& out,
              Problem& problem) {
  std::string_view word;
  if (!value.Text(word)) {
    return problem.Malformed(field, "not a string");
  }
  return ValueIn(names, word, out) ||
         problem.Unsupported(field,
                             Quoted(word) + " is not known (allowed: " + Listed(names) + ")");
}

template <class V>
bool ReadTokenIds(V&& value,
                  std::size_t tokens_max,
                  std::vector<std::uint32_t>& out,
                  Problem& problem) {
  const auto room = [&](std::uint64_t count) {
    return count <= tokens_max ||
           problem.Unsupported("token_ids", "more than " + std::to_string(tokens_max) + " tokens");
  };
  const auto item = [&](auto&& one) {
    if (!room(out.size() + 1)) {
      return false;
    }
    return ReadU32(
        one, "token_ids[" + std::to_string(out.size()) + "]", out.emplace_back(), problem);
  };
  return value.Items(room, item) || problem.Malformed("token_ids", "not an array of integers");
}

template <class V>
bool ReadInterval(V&& value,
                  std::string_view field,
                  std::optional<std::uint64_t>& out,
                  Problem& problem) {
  const std::uint64_t& ms = out.emplace();
  if (!ReadU64(value, field, *out, problem)) {
    return false;
  }
  return (ms >= kControlIntervalMsMin && ms <= kControlIntervalMsMax) ||
         problem.Unsupported(field,
                             std::to_string(ms) + " is not allowed (" +
                                 std::to_string(kControlIntervalMsMin) + " to " +
                                 std::to_string(kControlIntervalMsMax) + ")");
}

template <class V>
bool ReadRequestId(V&& value, std::string_view field, std::string& out, Problem& problem) {
  std::string_view text;
  if (!value.Text(text)) {
    return problem.Malformed(field, "not a string");
  }
  if (text.empty() || text.size() > kControlRequestIdBytesMax) {
    return problem.Unsupported(field,
                               "has " + std::to_string(text.size()) + " bytes (allowed: 1 to " +
                                   std::to_string(kControlRequestIdBytesMax) + ")");
  }
  out = text;
  return true;
}

/// What has been read of a request before it is known whether it fits together.
struct RawCommand {
  ControlCommand command;
  std::uint64_t version = 0;
  std::optional<std::string> op;
  std::optional<std::string> unknown;  ///< the first member that is not known
  unsigned seen = 0;
  [[nodiscard]] bool Has(ControlMember member) const { return (seen & Bit(member)) != 0; }
};

template <class V>
bool ReadMember(
    unsigned member, V&& value, RawCommand& out, const DecodeLimits& limits, Problem& problem) {
  const std::string_view name = kControlMemberNames[member];
  ControlCommand& command = out.command;
  switch (member) {
    case kVersionMember:
      return ReadU64(value, name, out.version, problem);
    case kOpMember:
      return ReadText(value, name, out.op.emplace(), problem);
    case kRankMember:
      return ReadU32(value, name, command.rank.emplace(), problem);
    case kIntervalMember:
      return ReadInterval(value, name, command.interval_ms, problem);
    case kInUseMember:
      return ReadWord(value, name, kInUseNames, command.refuse_in_use, problem);
    case kWaitMember:
      return ReadBool(value, name, command.wait, problem);
    case kHandoffMember:
      return ReadUuid(value, name, command.handoff_id, problem);
    case kGenerationMember:
      return ReadU64(value, name, command.generation, problem);
    case kRequestIdMember:
      return ReadRequestId(value, name, command.request_id, problem);
    case kTokenIdsMember:
      return ReadTokenIds(value, limits.prompt_tokens_max, command.token_ids, problem);
    default:
      return ReadU32(value, name, command.max_tokens, problem);
  }
}

template <class V>
bool ReadMembers(V&& value, RawCommand& out, const DecodeLimits& limits, Problem& problem) {
  SeenKeys seen;
  const auto member = [&](std::string_view key, auto&& item) {
    for (unsigned number = 0; number < kControlMemberCount; ++number) {
      if (kControlMemberNames[number] == key) {
        out.seen |= 1U << number;
        return seen.First(number, key, problem) && ReadMember(number, item, out, limits, problem);
      }
    }
    if (!out.unknown) {
      out.unknown = key;
    }
    return item.Skip();
  };
  return value.Fields(member) || problem.Malformed("", "not an object");
}

std::string AllowedOf(ControlOp op) {
  const ControlMembers& members = kControlMembers[static_cast<std::size_t>(op)];
  std::string list = "version, op";
  for (unsigned member = kRankMember; member < kControlMemberCount; ++member) {
    if (((members.needed | members.allowed) >> member & 1U) != 0) {
      (list += ", ") += kControlMemberNames[member];
    }
  }
  return list;
}

/// The version comes first: what the members of another one mean is not known here.
bool CheckCommand(RawCommand& raw, Problem& problem) {
  if (!raw.Has(kVersionMember)) {
    return problem.Malformed("version", "missing");
  }
  if (raw.version != kControlVersion) {
    return problem.Unsupported("version",
                               std::to_string(raw.version) + " is not supported (supported: " +
                                   std::to_string(kControlVersion) + ")");
  }
  if (!raw.op) {
    return problem.Malformed("op", "missing");
  }
  ControlOp& op = raw.command.op;
  if (!ValueIn(kControlOpNames, *raw.op, op)) {
    return problem.Unsupported(
        "op", Quoted(*raw.op) + " is not known (allowed: " + Listed(kControlOpNames) + ")");
  }
  const auto refuse = [&](std::string_view member) {
    return problem.Unsupported(
        Quoted(member),
        "not a member of " + std::string(NameOf(op)) + " (allowed: " + AllowedOf(op) + ")");
  };
  if (raw.unknown) {
    return refuse(*raw.unknown);
  }
  const ControlMembers& members = kControlMembers[static_cast<std::size_t>(op)];
  for (unsigned member = kRankMember; member < kControlMemberCount; ++member) {
    const bool seen = (raw.seen >> member & 1U) != 0;
    if (seen && ((members.needed | members.allowed) >> member & 1U) == 0) {
      return refuse(kControlMemberNames[member]);
    }
    if (!seen && (members.needed >> member & 1U) != 0) {
      return problem.Malformed(kControlMemberNames[member], "missing");
    }
  }
  return !raw.Has(kTokenIdsMember) || !raw.command.token_ids.empty() ||
         problem.Malformed("token_ids", "empty");
}

// ---- items ----

template <class V>
bool ReadTiming(V&& value, BootstrapTiming& out, Problem& problem) {
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "mode") {
      return ReadWord(item, key, kTimingNames, out.mode, problem);
    }
    if (key == "full_prompt_tokens") {
      return ReadU64(item, key, out.full_prompt_tokens, problem);
    }
    if (key == "kv_bytes_per_token") {
      return ReadOptionalU64(item, key, out.kv_bytes_per_token, problem);
    }
    if (key == "bandwidth_gb_s") {
      return ReadOptional(item, key, out.bandwidth_gb_s, problem, [](auto&&... args) {
        return ReadNumber(args...);
      });
    }
    return item.Skip();
  };
  return value.Fields(field) || problem.Malformed("transfer_timing", "not an object");
}

template <class V>
bool ReadRank(V&& value, ControlRank& out, Problem& problem) {
  struct Number {
    std::string_view key;
    std::uint64_t& out;
  };
  const auto field = [&](std::string_view key, auto&& item) {
    for (const Number& number : {Number{"requests_running", out.requests_running},
                                 Number{"requests_waiting", out.requests_waiting},
                                 Number{"blocks_used", out.blocks_used},
                                 Number{"blocks_cached", out.blocks_cached},
                                 Number{"blocks_total", out.blocks_total},
                                 Number{"handoffs", out.handoffs},
                                 Number{"sessions", out.sessions},
                                 Number{"blocks_cleared", out.blocks_cleared},
                                 Number{"blocks_in_use", out.blocks_in_use}}) {
      if (number.key == key) {
        return ReadU64(item, key, number.out, problem);
      }
    }
    if (key == "rank") {
      return ReadU32(item, key, out.rank, problem);
    }
    return key == "refused" ? ReadBool(item, key, out.refused, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("ranks", "not an array of objects");
}

template <class V>
bool ReadItemField(std::string_view key, V&& item, ControlItem& out, Problem& problem) {
  if (key == "type") {
    return ReadWord(item, key, kControlItemNames, out.kind, problem);
  }
  if (key == "state") {
    return ReadWord(item, key, kControlStateNames, out.state, problem);
  }
  if (key == "changed") {
    return ReadBool(item, key, out.changed, problem);
  }
  if (key == "requests") {
    return ReadU64(item, key, out.requests, problem);
  }
  if (key == "ranks") {
    const auto rank = [&](auto&& one) { return ReadRank(one, out.ranks.emplace_back(), problem); };
    return item.Items([](std::uint64_t) { return true; }, rank) ||
           problem.Malformed(key, "not an array of objects");
  }
  if (key == "generation") {
    return ReadU64(item, key, out.generation, problem);
  }
  if (key == "outcome") {
    return ReadWord(item, key, kControlOutcomeNames, out.outcome, problem);
  }
  if (key == "transfer_timing") {
    return ReadTiming(item, out.timing, problem);
  }
  if (key == "transferable_prompt_tokens") {
    return ReadU64(item, key, out.transferable_prompt_tokens, problem);
  }
  if (key == "token") {
    return ReadU32(item, key, out.token, problem);
  }
  return key == "reason" ? ReadText(item, key, out.reason, problem) : item.Skip();
}

/// {"data":{"data":<item>},"complete_final":false}
template <class V>
bool ReadItem(V&& value, ControlItem& out, Problem& problem) {
  bool typed = false;
  const auto field = [&](std::string_view key, auto&& item) {
    typed = typed || key == "type";
    return ReadItemField(key, item, out, problem);
  };
  const auto inner = [&](std::string_view key, auto&& item) {
    return key == "data" ? item.Fields(field) || problem.Malformed("data.data", "not an object")
                         : item.Skip();
  };
  const auto outer = [&](std::string_view key, auto&& item) {
    return key == "data" ? item.Fields(inner) || problem.Malformed("data", "not an object")
                         : item.Skip();
  };
  if (!value.Fields(outer)) {
    return problem.Malformed("", "not an object");
  }
  return typed || problem.Malformed("type", "missing");
}

}  // namespace

Result<ControlCommand> DecodeControlCommand(PayloadCodec codec,
                                            std::string_view body,
                                            const DecodeLimits& limits) {
  if (body.size() > limits.body_bytes_max) {
    return Fail(Errc::kUnsupported,
                std::string(kRequest) + ": " + std::to_string(body.size()) +
                    " bytes, more than the limit of " + std::to_string(limits.body_bytes_max));
  }
  RawCommand raw;
  UNDERSTUDY_TRY_STATUS(ReadWholeBody(
      codec,
      kRequest,
      body,
      [&](auto& value, Problem& problem) {
        return ReadMembers(value, raw, limits, problem) && CheckCommand(raw, problem);
      },
      kNesting));
  return std::move(raw.command);
}

Result<ControlItem> DecodeControlItem(PayloadCodec codec, std::string_view body) {
  ControlItem item;
  UNDERSTUDY_TRY_STATUS(ReadWholeBody(
      codec,
      kItem,
      body,
      [&](auto& value, Problem& problem) { return ReadItem(value, item, problem); },
      kNesting));
  return item;
}

}  // namespace understudy::transport
