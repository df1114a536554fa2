// Event plane messages. Source: events.md 3 and 5; vectors/events/event_plane_live_1.3.0.json.
#include "transport/codec/field_readers.h"
#include "transport/codec/msgpack_value.h"
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "understudy/transport/codec.h"

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 64;
constexpr std::size_t kEnvelopeOverhead = 96;

/// Runs `read` over one msgpack map that fills all of `bytes`.
template <class Read>
Status ReadWhole(const char* what, std::string_view bytes, Read read) {
  MsgpackReader reader(bytes, kNestingMax);
  Problem problem;
  const bool done = read(reader, problem);
  if (reader.broken() != nullptr) {
    return Fail(Errc::kMalformed, std::string(what) + ": not msgpack: " + reader.broken());
  }
  if (!done) {
    return FailWith(what, problem.Take());
  }
  if (!reader.AtEnd()) {
    return Fail(Errc::kMalformed, std::string(what) + ": bytes after the value");
  }
  return {};
}

bool HasAll(const SeenKeys& seen, std::initializer_list<std::string_view> names, Problem& problem) {
  unsigned bit = 0;
  for (const std::string_view name : names) {
    if (!seen.Has(bit++)) {
      return problem.Malformed(name, "missing");
    }
  }
  return true;
}

bool ReadEnvelope(MsgpackReader& reader, EventEnvelope& out, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, MsgpackReader& value) {
    if (key == "publisher_id") {
      return seen.First(0, key, problem) && ReadU64(value, key, out.publisher_id, problem);
    }
    if (key == "sequence") {
      return seen.First(1, key, problem) && ReadU64(value, key, out.sequence, problem);
    }
    if (key == "published_at") {
      return seen.First(2, key, problem) && ReadU64(value, key, out.published_at_ms, problem);
    }
    if (key == "topic") {
      return seen.First(3, key, problem) && ReadText(value, key, out.topic, problem);
    }
    if (key == "payload") {
      std::string_view payload;
      if (!seen.First(4, key, problem)) {
        return false;
      }
      if (!value.Binary(payload)) {
        return problem.Malformed(key, "not binary");
      }
      out.payload = payload;
      return true;
    }
    return value.Skip();
  };
  if (!reader.Fields(field)) {
    return problem.Malformed("", "not a map");
  }
  return HasAll(seen, {"publisher_id", "sequence", "published_at", "topic", "payload"}, problem);
}

bool ReadLoad(MsgpackReader& reader, ActiveLoad& out, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, MsgpackReader& value) {
    if (key == "worker_id") {
      return seen.First(0, key, problem) && ReadU64(value, key, out.worker_id, problem);
    }
    if (key == "dp_rank") {
      return seen.First(1, key, problem) && ReadU32(value, key, out.dp_rank, problem);
    }
    if (key == "active_decode_blocks") {
      return seen.First(2, key, problem) &&
             ReadOptionalU64(value, key, out.active_decode_blocks, problem);
    }
    if (key == "active_prefill_tokens") {
      return seen.First(3, key, problem) &&
             ReadOptionalU64(value, key, out.active_prefill_tokens, problem);
    }
    if (key == "kv_used_blocks") {
      return seen.First(4, key, problem) &&
             ReadOptionalU64(value, key, out.kv_used_blocks, problem);
    }
    return value.Skip();
  };
  if (!reader.Fields(field)) {
    return problem.Malformed("", "not a map");
  }
  return HasAll(seen, {"worker_id", "dp_rank"}, problem);
}

void AppendOptional(std::string& out, std::string_view key, std::optional<std::uint64_t> number) {
  AppendMsgpackText(out, key);
  if (number) {
    AppendMsgpackUint(out, *number);
  } else {
    AppendMsgpackNil(out);
  }
}

}  // namespace

std::string EncodeEnvelope(const EventEnvelope& envelope) {
  std::string out;
  out.reserve(kEnvelopeOverhead + envelope.topic.size() + envelope.payload.size());
  AppendMsgpackMap(out, 5);
  AppendMsgpackText(out, "publisher_id");
  AppendMsgpackUint(out, envelope.publisher_id);
  AppendMsgpackText(out, "sequence");
  AppendMsgpackUint(out, envelope.sequence);
  AppendMsgpackText(out, "published_at");
  AppendMsgpackUint(out, envelope.published_at_ms);
  AppendMsgpackText(out, "topic");
  AppendMsgpackText(out, ToUtf8(envelope.topic));
  AppendMsgpackText(out, "payload");
  AppendMsgpackBinary(out, envelope.payload);
  return out;
}

Result<EventEnvelope> DecodeEnvelope(std::string_view bytes) {
  EventEnvelope envelope;
  UNDERSTUDY_TRY_STATUS(
      ReadWhole("event envelope", bytes, [&](MsgpackReader& reader, Problem& problem) {
        return ReadEnvelope(reader, envelope, problem);
      }));
  return envelope;
}

std::string EncodeActiveLoad(const ActiveLoad& load) {
  std::string out;
  AppendMsgpackMap(out, 5);
  AppendMsgpackText(out, "worker_id");
  AppendMsgpackUint(out, load.worker_id);
  AppendMsgpackText(out, "dp_rank");
  AppendMsgpackUint(out, load.dp_rank);
  AppendOptional(out, "active_decode_blocks", load.active_decode_blocks);
  AppendOptional(out, "active_prefill_tokens", load.active_prefill_tokens);
  AppendOptional(out, "kv_used_blocks", load.kv_used_blocks);
  return out;
}

Result<ActiveLoad> DecodeActiveLoad(std::string_view bytes) {
  ActiveLoad load;
  UNDERSTUDY_TRY_STATUS(
      ReadWhole("active load", bytes, [&](MsgpackReader& reader, Problem& problem) {
        return ReadLoad(reader, load, problem);
      }));
  return load;
}

}  // namespace understudy::transport
