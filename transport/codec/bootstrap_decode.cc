#include "transport/codec/bootstrap_names.h"
#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "understudy/transport/bootstrap_frame.h"

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 16;

template <class Enum, std::size_t N>
bool ReadName(const JsonValue& value,
              std::string_view field,
              const std::array<std::string_view, N>& names,
              Enum& out,
              Problem& problem) {
  std::string_view text;
  if (!value.Text(text)) {
    return problem.Malformed(field, "not a string");
  }
  return ValueIn(names, text, out) || problem.Malformed(field, "unknown word " + Quoted(text));
}

/// Reads an object whose keys are `names`: read(index, value) for each, all required but those in
/// `optional`.
template <std::size_t N, class Read>
bool ReadObject(const JsonValue& value,
                std::string_view field,
                const std::array<std::string_view, N>& names,
                Problem& problem,
                Read read,
                unsigned optional = 0) {
  SeenKeys seen;
  const bool whole = value.Fields([&](std::string_view key, const JsonValue& item) {
    std::size_t index = N;
    if (!ValueIn(names, key, index)) {
      return true;
    }
    return seen.First(static_cast<unsigned>(index), key, problem) && read(index, item);
  });
  if (!whole) {
    return problem.Malformed(field, "not an object");  // or what was said before
  }
  for (unsigned i = 0; i < N; ++i) {
    if (!seen.Has(i) && (optional >> i & 1U) == 0) {
      return problem.Malformed(names[i], "missing");
    }
  }
  return true;
}

/// An enum of the reference: "Name", or {"Name": content}. read(name, content), content null for a
/// plain name.
template <class Read>
bool ReadTagged(const JsonValue& value, std::string_view field, Problem& problem, Read read) {
  std::string_view name;
  if (value.Text(name)) {
    return read(name, static_cast<const JsonValue*>(nullptr));
  }
  int members = 0;
  const bool whole = value.Fields([&](std::string_view key, const JsonValue& content) {
    return ++members == 1 ? read(key, &content) : problem.Malformed(field, "more than one name");
  });
  if (!whole || members == 0) {
    return problem.Malformed(field, "not a name with its content");
  }
  return true;
}

/// A name without content may also be written {"Name": null}.
bool IsPlain(const JsonValue* content, std::string_view name, Problem& problem) {
  return content == nullptr || content->TakeNull() || problem.Malformed(name, "takes no content");
}

bool NeedsContent(const JsonValue* content, std::string_view name, Problem& problem) {
  return content != nullptr || problem.Malformed(name, "without content");
}

bool ReadRegister(const JsonValue& value, BootstrapRegister& out, Problem& problem) {
  static constexpr std::array<std::string_view, 4> kKeys = {
      "role", "dp_rank", "order", "engine_type"};
  return ReadObject(value, "Register", kKeys, problem, [&](std::size_t index, const JsonValue& v) {
    switch (index) {
      case 0: {
        static constexpr std::array<std::string_view, 1> kRoles = {"Destination"};
        std::size_t role = 0;
        return ReadName(v, "role", kRoles, role, problem);
      }
      case 1:
        return ReadU32(v, "dp_rank", out.dp_rank, problem);
      case 2:
        return ReadName(v, "order", kOrderNames, out.order, problem);
      default:
        return ReadName(v, "engine_type", kEngineNames, out.engine, problem);
    }
  });
}

bool ReadAction(const JsonValue& value, BootstrapAction& out, Problem& problem) {
  static constexpr std::array<std::string_view, 2> kKeys = {"id", "action"};
  static constexpr std::array<std::string_view, 2> kContent = {"handoff_id", "delay_ms"};
  const auto read_content = [&](std::size_t index, const JsonValue& v) {
    return index == 0 ? ReadUuid(v, "handoff_id", out.handoff_id, problem)
                      : ReadNumber(v, "delay_ms", out.delay_ms, problem);
  };
  return ReadObject(value, "Action", kKeys, problem, [&](std::size_t index, const JsonValue& v) {
    if (index == 0) {
      return ReadU64(v, "id", out.id, problem);
    }
    return ReadTagged(v, "action", problem, [&](std::string_view name, const JsonValue* content) {
      if (!ValueIn(kActionNames, name, out.kind)) {
        return problem.Malformed("action", "unknown word " + Quoted(name));
      }
      const bool delayed = out.kind == BootstrapAction::Kind::kStartTransfer;
      if (!NeedsContent(content, name, problem) ||
          !ReadObject(*content, name, kContent, problem, read_content, delayed ? 0U : 2U)) {
        return false;
      }
      out.delay_ms = delayed ? out.delay_ms : 0.0;
      return true;
    });
  });
}

bool ReadAck(const JsonValue& value, BootstrapActionAck& out, Problem& problem) {
  static constexpr std::array<std::string_view, 2> kKeys = {"action_id", "outcome"};
  return ReadObject(value, "ActionAck", kKeys, problem, [&](std::size_t index, const JsonValue& v) {
    if (index == 0) {
      return ReadU64(v, "action_id", out.action_id, problem);
    }
    return ReadTagged(v, "outcome", problem, [&](std::string_view name, const JsonValue* content) {
      if (!ValueIn(kOutcomeNames, name, out.outcome)) {
        return problem.Malformed("outcome", "unknown word " + Quoted(name));
      }
      if (out.outcome != BootstrapActionAck::Outcome::kFailed) {
        return IsPlain(content, name, problem);
      }
      return NeedsContent(content, name, problem) && ReadText(*content, name, out.error, problem);
    });
  });
}

bool ReadTiming(const JsonValue& value, BootstrapTiming& out, Problem& problem) {
  static constexpr std::array<std::string_view, 4> kKeys = {
      "mode", "full_prompt_tokens", "kv_bytes_per_token", "bandwidth_gb_s"};
  return ReadObject(
      value,
      "transfer_timing",
      kKeys,
      problem,
      [&](std::size_t index, const JsonValue& v) {
        switch (index) {
          case 0:
            return ReadName(v, "mode", kTimingNames, out.mode, problem);
          case 1:
            return ReadU64(v, "full_prompt_tokens", out.full_prompt_tokens, problem);
          case 2:
            return ReadOptionalU64(v, "kv_bytes_per_token", out.kv_bytes_per_token, problem);
          default:
            return ReadOptional(
                v, "bandwidth_gb_s", out.bandwidth_gb_s, problem, [](auto&&... args) {
                  return ReadNumber(args...);
                });
        }
      },
      4U | 8U);
}

bool ReadFact(const JsonValue& value, BootstrapFact& out, Problem& problem) {
  static constexpr std::array<std::string_view, 3> kKeys = {
      "handoff_id", "transfer_timing", "transferable_prompt_tokens"};
  return ReadTagged(value, "Fact", problem, [&](std::string_view name, const JsonValue* content) {
    if (!ValueIn(kFactNames, name, out.kind)) {
      return problem.Malformed("Fact", "unknown word " + Quoted(name));
    }
    const bool held = out.kind == BootstrapFact::Kind::kSourceHeld;
    const bool reserved = out.kind == BootstrapFact::Kind::kDestinationReserved;
    const auto read = [&](std::size_t index, const JsonValue& v) {
      if (index == 0) {
        return ReadUuid(v, "handoff_id", out.handoff_id, problem);
      }
      if (index == 1) {
        return !held || ReadTiming(v, out.timing, problem);
      }
      return !reserved ||
             ReadU64(v, "transferable_prompt_tokens", out.transferable_prompt_tokens, problem);
    };
    return NeedsContent(content, name, problem) &&
           ReadObject(
               *content, name, kKeys, problem, read, (held ? 0U : 2U) | (reserved ? 0U : 4U));
  });
}

bool ReadWithText(const JsonValue& value,
                  std::string_view name,
                  std::string& out,
                  Problem& problem) {
  static constexpr std::array<std::string_view, 1> kKeys = {"message"};
  return ReadObject(value, name, kKeys, problem, [&](std::size_t, const JsonValue& v) {
    return ReadText(v, "message", out, problem);
  });
}

bool ReadMessage(std::string_view name,
                 const JsonValue* content,
                 BootstrapMessage& out,
                 Problem& problem) {
  if (name == "Registered" || name == "Complete" || name == "Overloaded") {
    if (name == "Registered") {
      out = BootstrapRegistered();
    } else if (name == "Complete") {
      out = BootstrapComplete();
    } else {
      out = BootstrapOverloaded();
    }
    return IsPlain(content, name, problem);
  }
  if (!NeedsContent(content, name, problem)) {
    return false;
  }
  if (name == "Register") {
    return ReadRegister(*content, out.emplace<BootstrapRegister>(), problem);
  }
  if (name == "Action") {
    return ReadAction(*content, out.emplace<BootstrapAction>(), problem);
  }
  if (name == "ActionAck") {
    return ReadAck(*content, out.emplace<BootstrapActionAck>(), problem);
  }
  if (name == "Fact") {
    return ReadFact(*content, out.emplace<BootstrapFact>(), problem);
  }
  if (name == "Abort") {
    return ReadWithText(*content, name, out.emplace<BootstrapAbort>().message, problem);
  }
  if (name == "ProtocolError") {
    return ReadWithText(*content, name, out.emplace<BootstrapProtocolError>().message, problem);
  }
  return problem.Malformed("message", "unknown word " + Quoted(name));
}

bool ReadIdentity(const JsonValue& value, BootstrapIdentity& out, Problem& problem) {
  static constexpr std::array<std::string_view, 3> kKeys = {
      "handoff_id", "bootstrap_room", "request_id"};
  return ReadObject(value, "identity", kKeys, problem, [&](std::size_t index, const JsonValue& v) {
    switch (index) {
      case 0:
        return ReadUuid(v, "handoff_id", out.handoff_id, problem);
      case 1:
        return ReadU64(v, "bootstrap_room", out.room, problem);
      default:
        return ReadUuid(v, "request_id", out.request_id, problem);
    }
  });
}

}  // namespace

Result<BootstrapFrame> DecodeBootstrapBody(std::string_view json) {
  static constexpr std::array<std::string_view, 2> kKeys = {"identity", "message"};
  UNDERSTUDY_TRY(const JsonValue value, ParseJson(json, kNestingMax));
  BootstrapFrame frame;
  Problem problem;
  const auto read = [&](std::size_t index, const JsonValue& v) {
    if (index == 0) {
      return ReadIdentity(v, frame.identity, problem);
    }
    return ReadTagged(v, "message", problem, [&](std::string_view name, const JsonValue* content) {
      return ReadMessage(name, content, frame.message, problem);
    });
  };
  if (!ReadObject(value, "frame", kKeys, problem, read)) {
    return tl::make_unexpected(problem.Take());
  }
  return frame;
}

}  // namespace understudy::transport
