// Event plane messages. Source: events.md 3 and 5; vectors/events/event_plane_live_1.3.0.json.
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "transport/codec/whole_msgpack.h"
#include "understudy/transport/codec.h"

namespace understudy::transport {
namespace {

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
  return HasAllKeys(
      seen, {"publisher_id", "sequence", "published_at", "topic", "payload"}, problem);
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
  return HasAllKeys(seen, {"worker_id", "dp_rank"}, problem);
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

void AppendEnvelope(std::string& out,
                    std::uint64_t publisher_id,
                    std::uint64_t sequence,
                    std::uint64_t published_at_ms,
                    std::string_view topic,
                    std::string_view payload) {
  out.reserve(out.size() + kEnvelopeBytesMax + topic.size() + payload.size());
  AppendMsgpackMap(out, 5);
  AppendMsgpackText(out, "publisher_id");
  AppendMsgpackUint(out, publisher_id);
  AppendMsgpackText(out, "sequence");
  AppendMsgpackUint(out, sequence);
  AppendMsgpackText(out, "published_at");
  AppendMsgpackUint(out, published_at_ms);
  AppendMsgpackText(out, "topic");
  AppendMsgpackText(out, ToUtf8(topic));
  AppendMsgpackText(out, "payload");
  AppendMsgpackBinary(out, payload);
}

std::string EncodeEnvelope(const EventEnvelope& envelope) {
  std::string out;
  AppendEnvelope(out,
                 envelope.publisher_id,
                 envelope.sequence,
                 envelope.published_at_ms,
                 envelope.topic,
                 envelope.payload);
  return out;
}

Result<EventEnvelope> DecodeEnvelope(std::string_view bytes) {
  EventEnvelope envelope;
  UNDERSTUDY_TRY_STATUS(
      ReadWholeMsgpack("event envelope", bytes, [&](MsgpackReader& reader, Problem& problem) {
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
      ReadWholeMsgpack("active load", bytes, [&](MsgpackReader& reader, Problem& problem) {
        return ReadLoad(reader, load, problem);
      }));
  return load;
}

}  // namespace understudy::transport
