// Body of `generate`, both codecs through one template.
// Source: wire.md 4.5; dynamo-llm 1.3.0 and 1.6.1 PreprocessedRequest; vectors/wire/request_*.json.
#include "transport/codec/big_endian.h"
#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/msgpack_value.h"
#include "transport/codec/whole_body.h"
#include "understudy/transport/codec.h"

#include <algorithm>

namespace understudy::transport {
namespace {

template <class V>
bool ReadTokens(V&& value,
                std::size_t tokens_max,
                std::vector<std::uint32_t>& out,
                Problem& problem) {
  const auto refuse = [&] {
    return problem.Unsupported("token_ids", "more than " + std::to_string(tokens_max) + " tokens");
  };
  const auto begin = [&](std::uint64_t count) {
    if (count > tokens_max) {
      return refuse();
    }
    out.reserve(count);  // each item takes a byte of the body at least, both readers see to that
    return true;
  };
  const auto item = [&](auto&& token) {
    if (out.size() >= tokens_max) {
      return refuse();
    }
    std::uint64_t id = 0;
    if (!token.Unsigned(id) || id > std::numeric_limits<std::uint32_t>::max()) {
      return problem.Malformed("token_ids[" + std::to_string(out.size()) + "]",
                               "not an unsigned 32-bit integer");
    }
    out.push_back(static_cast<std::uint32_t>(id));
    return true;
  };
  return value.Items(begin, item) || problem.Malformed("token_ids", "not an array of integers");
}

template <class V>
bool ReadStopConditions(V&& value, PreprocessedRequest& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  SeenKeys seen;
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "max_tokens") {
      return seen.First(0, key, problem) &&
             ReadOptionalU32(item, "stop_conditions.max_tokens", out.max_tokens, problem);
    }
    if (key == "min_tokens") {
      return seen.First(1, key, problem) &&
             ReadOptionalU32(item, "stop_conditions.min_tokens", out.min_tokens, problem);
    }
    if (key == "ignore_eos") {
      return seen.First(2, key, problem) &&
             ReadOptional(
                 item, "stop_conditions.ignore_eos", out.ignore_eos, problem, [](auto&&... args) {
                   return ReadBool(args...);
                 });
    }
    return item.Skip();
  };
  return value.Fields(field) || problem.Malformed("stop_conditions", "not an object");
}

template <class V>
bool ReadRouting(V&& value, PreprocessedRequest& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  SeenKeys seen;
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "dp_rank") {
      return seen.First(0, key, problem) &&
             ReadOptionalU32(item, "routing.dp_rank", out.dp_rank, problem);
    }
    if (key == "backend_instance_id") {
      return seen.First(1, key, problem) &&
             ReadOptionalU64(item, "routing.backend_instance_id", out.backend_instance_id, problem);
    }
    return item.Skip();
  };
  return value.Fields(field) || problem.Malformed("routing", "not an object");
}

/// A text, or in msgpack 16 bytes.
template <class V>
bool ReadHandoffId(V&& value, std::optional<Uuid>& out, Problem& problem) {
  constexpr std::size_t kIdBytes = 16;
  std::string_view text;
  if (value.TakeNull()) {
    return true;
  }
  if (value.Text(text)) {
    out = ParseUuid(text);
  } else if constexpr (requires { value.Binary(text); }) {
    if (value.Binary(text) && text.size() == kIdBytes) {
      out = Uuid{LoadU64(text.data()), LoadU64(text.data() + sizeof(std::uint64_t))};
    }
  }
  return out || problem.Malformed("bootstrap_info.handoff_id", "not a UUID");
}

template <class V>
bool ReadPort(V&& value, std::uint16_t& out, Problem& problem) {
  std::uint64_t port = 0;
  if (!value.Unsigned(port) || port > std::numeric_limits<std::uint16_t>::max()) {
    return problem.Malformed("bootstrap_info.bootstrap_port", "not a port");
  }
  out = static_cast<std::uint16_t>(port);
  return true;
}

template <class V>
bool ReadBootstrap(V&& value, PreprocessedRequest& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  constexpr std::string_view kNames[] = {"bootstrap_host", "bootstrap_port", "bootstrap_room"};
  BootstrapInfo& info = out.bootstrap_info.emplace();
  SeenKeys seen;
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == kNames[0]) {
      return seen.First(0, key, problem) &&
             ReadText(item, "bootstrap_info.bootstrap_host", info.host, problem);
    }
    if (key == kNames[1]) {
      return seen.First(1, key, problem) && ReadPort(item, info.port, problem);
    }
    if (key == kNames[2]) {
      return seen.First(2, key, problem) &&
             ReadU64(item, "bootstrap_info.bootstrap_room", info.room, problem);
    }
    if (key == "handoff_id") {
      return seen.First(3, key, problem) && ReadHandoffId(item, info.handoff_id, problem);
    }
    return item.Skip();
  };
  if (!value.Fields(field)) {
    return problem.Malformed("bootstrap_info", "not an object");
  }
  for (unsigned i = 0; i < std::size(kNames); ++i) {
    if (!seen.Has(i)) {
      return problem.Malformed("bootstrap_info." + std::string(kNames[i]), "missing");
    }
  }
  return true;
}

template <class V>
bool ReadAnnotations(V&& value, std::vector<std::string>& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto item = [&](auto&& text) {
    return ReadText(text, "annotations", out.emplace_back(), problem);
  };
  return value.Items([](std::uint64_t) { return true; }, item) ||
         problem.Malformed("annotations", "not an array of strings");
}

enum Field : unsigned {
  kModel,
  kTokenIds,
  kStopConditions,
  kAnnotations,
  kRouting,
  kBootstrapInfo,
  kRequestTimestampMs,
  kHealthCheck,
  kFieldCount,
};
constexpr std::string_view kFieldNames[kFieldCount] = {"model",
                                                       "token_ids",
                                                       "stop_conditions",
                                                       "annotations",
                                                       "routing",
                                                       "bootstrap_info",
                                                       "request_timestamp_ms",
                                                       "_HEALTH_CHECK"};

template <class V>
bool ReadField(unsigned field,
               V&& value,
               const DecodeLimits& limits,
               PreprocessedRequest& out,
               Problem& problem) {
  switch (field) {
    case kModel:
      return value.TakeNull() || ReadText(value, "model", out.model, problem);
    case kTokenIds:
      return ReadTokens(value, limits.prompt_tokens_max, out.token_ids, problem);
    case kStopConditions:
      return ReadStopConditions(value, out, problem);
    case kAnnotations:
      return ReadAnnotations(value, out.annotations, problem);
    case kRouting:
      return ReadRouting(value, out, problem);
    case kBootstrapInfo:
      return ReadBootstrap(value, out, problem);
    case kRequestTimestampMs:
      return ReadOptional(
          value, "request_timestamp_ms", out.request_timestamp_ms, problem, [](auto&&... args) {
            return ReadNumber(args...);
          });
    case kHealthCheck:
      return value.TakeNull() || ReadBool(value, "_HEALTH_CHECK", out.health_check, problem);
    default:
      return value.Skip();
  }
}

template <class V>
bool ReadRequest(V&& value,
                 const DecodeLimits& limits,
                 PreprocessedRequest& out,
                 Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, auto&& item) {
    const auto* const known = std::find(std::begin(kFieldNames), std::end(kFieldNames), key);
    const auto index = static_cast<unsigned>(known - std::begin(kFieldNames));
    return (index == kFieldCount || seen.First(index, key, problem)) &&
           ReadField(index, item, limits, out, problem);
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  return seen.Has(kTokenIds) || problem.Malformed("token_ids", "missing");
}

}  // namespace

Result<PreprocessedRequest> DecodeRequest(PayloadCodec codec,
                                          std::string_view body,
                                          const DecodeLimits& limits) {
  constexpr const char* kWhat = "request body";
  if (body.size() > limits.body_bytes_max) {
    return Fail(Errc::kUnsupported,
                std::string(kWhat) + ": " + std::to_string(body.size()) + " bytes, limit " +
                    std::to_string(limits.body_bytes_max));
  }
  PreprocessedRequest request;
  UNDERSTUDY_TRY_STATUS(ReadWholeBody(
      codec,
      kWhat,
      body,
      [&](auto& value, Problem& problem) { return ReadRequest(value, limits, request, problem); },
      limits.nesting_max));
  return request;
}

}  // namespace understudy::transport
