#include "understudy/transport/event_payloads.h"

#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "transport/codec/whole_msgpack.h"

namespace understudy::transport {
namespace {

constexpr std::uint64_t kForwardPassVersion = 1;

void AppendField(std::string& out, std::string_view key, std::uint64_t number) {
  AppendMsgpackText(out, key);
  AppendMsgpackUint(out, number);
}

void AppendField(std::string& out, std::string_view key, double number) {
  AppendMsgpackText(out, key);
  AppendMsgpackDouble(out, number);
}

/// One of the two groups of counts; `place` gives where a key's number goes, or nothing.
struct GroupPlaces {
  std::uint64_t* number = nullptr;
  double* real = nullptr;
};

GroupPlaces ScheduledPlace(std::string_view key, ForwardPassMetrics& out) {
  if (key == "num_prefill_requests") {
    return {&out.prefill.count, nullptr};
  }
  if (key == "sum_prefill_tokens") {
    return {&out.prefill_tokens, nullptr};
  }
  if (key == "var_prefill_length") {
    return {nullptr, &out.prefill.variance};
  }
  if (key == "sum_prefill_kv_tokens") {
    return {&out.prefill_kv_tokens, nullptr};
  }
  if (key == "num_decode_requests") {
    return {&out.decode.count, nullptr};
  }
  if (key == "sum_decode_kv_tokens") {
    return {&out.decode.sum, nullptr};
  }
  return key == "var_decode_kv_tokens" ? GroupPlaces{nullptr, &out.decode.variance} : GroupPlaces{};
}

GroupPlaces QueuedPlace(std::string_view key, ForwardPassMetrics& out) {
  if (key == "num_prefill_requests") {
    return {&out.queued_prefill.count, nullptr};
  }
  if (key == "sum_prefill_tokens") {
    return {&out.queued_prefill.sum, nullptr};
  }
  if (key == "var_prefill_length") {
    return {nullptr, &out.queued_prefill.variance};
  }
  if (key == "num_decode_requests") {
    return {&out.queued_decode.count, nullptr};
  }
  if (key == "sum_decode_kv_tokens") {
    return {&out.queued_decode.sum, nullptr};
  }
  return key == "var_decode_kv_tokens" ? GroupPlaces{nullptr, &out.queued_decode.variance}
                                       : GroupPlaces{};
}

template <class PlaceOf>
bool ReadGroup(MsgpackReader& reader,
               std::string_view name,
               ForwardPassMetrics& out,
               PlaceOf place_of,
               Problem& problem) {
  const auto field = [&](std::string_view key, MsgpackReader& value) {
    const GroupPlaces place = place_of(key, out);
    if (place.number != nullptr) {
      return ReadU64(value, key, *place.number, problem);
    }
    return place.real != nullptr ? ReadNumber(value, key, *place.real, problem) : value.Skip();
  };
  return reader.Fields(field) || problem.Malformed(name, "not a map");
}

bool ReadForwardPass(MsgpackReader& reader, ForwardPassMetrics& out, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, MsgpackReader& value) {
    if (key == "worker_id") {
      return seen.First(0, key, problem) && ReadText(value, key, out.worker_id, problem);
    }
    if (key == "dp_rank") {
      return seen.First(1, key, problem) && ReadU32(value, key, out.dp_rank, problem);
    }
    if (key == "counter_id") {
      return seen.First(2, key, problem) && ReadU64(value, key, out.counter_id, problem);
    }
    if (key == "wall_time") {
      return seen.First(3, key, problem) && ReadNumber(value, key, out.wall_time_s, problem);
    }
    if (key == "scheduled_requests") {
      return seen.First(4, key, problem) && ReadGroup(value, key, out, ScheduledPlace, problem);
    }
    if (key == "queued_requests") {
      return seen.First(5, key, problem) && ReadGroup(value, key, out, QueuedPlace, problem);
    }
    return value.Skip();
  };
  if (!reader.Fields(field)) {
    return problem.Malformed("", "not a map");
  }
  return HasAllKeys(
      seen,
      {"worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests", "queued_requests"},
      problem);
}

/// "Free", or {"AddRequest": {...}}.
bool ReadKind(MsgpackReader& value, std::string& out, Problem& problem) {
  std::string_view text;
  if (value.Text(text)) {
    out = text;
    return true;
  }
  const auto field = [&](std::string_view key, MsgpackReader& body) {
    out = key;
    return body.Skip();
  };
  return value.Fields(field) || problem.Malformed("data", "neither a string nor a map");
}

bool ReadWorker(MsgpackReader& value, SequenceEvent& out, Problem& problem) {
  const auto field = [&](std::string_view key, MsgpackReader& item) {
    if (key == "worker_id") {
      return ReadU64(item, key, out.worker_id, problem);
    }
    return key == "dp_rank" ? ReadU32(item, key, out.dp_rank, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("worker", "not a map");
}

bool ReadSequenceEvent(MsgpackReader& reader, SequenceEvent& out, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, MsgpackReader& value) {
    if (key == "request_id") {
      return seen.First(0, key, problem) && ReadText(value, key, out.request_id, problem);
    }
    if (key == "worker") {
      return seen.First(1, key, problem) && ReadWorker(value, out, problem);
    }
    if (key == "data") {
      return seen.First(2, key, problem) && ReadKind(value, out.kind, problem);
    }
    if (key == "router_id") {
      return seen.First(3, key, problem) && ReadU64(value, key, out.router_id, problem);
    }
    return value.Skip();
  };
  if (!reader.Fields(field)) {
    return problem.Malformed("", "not a map");
  }
  return HasAllKeys(seen, {"request_id", "worker", "data", "router_id"}, problem);
}

}  // namespace

void EncodeForwardPass(std::string& out, const ForwardPassMetrics& metrics) {
  out.clear();
  AppendMsgpackMap(out, 7);
  AppendField(out, "version", kForwardPassVersion);
  AppendMsgpackText(out, "worker_id");
  AppendMsgpackText(out, metrics.worker_id);
  AppendField(out, "dp_rank", std::uint64_t{metrics.dp_rank});
  AppendField(out, "counter_id", metrics.counter_id);
  AppendField(out, "wall_time", metrics.wall_time_s);
  AppendMsgpackText(out, "scheduled_requests");
  AppendMsgpackMap(out, 7);
  AppendField(out, "num_prefill_requests", metrics.prefill.count);
  AppendField(out, "sum_prefill_tokens", metrics.prefill_tokens);
  AppendField(out, "var_prefill_length", metrics.prefill.variance);
  AppendField(out, "sum_prefill_kv_tokens", metrics.prefill_kv_tokens);
  AppendField(out, "num_decode_requests", metrics.decode.count);
  AppendField(out, "sum_decode_kv_tokens", metrics.decode.sum);
  AppendField(out, "var_decode_kv_tokens", metrics.decode.variance);
  AppendMsgpackText(out, "queued_requests");
  AppendMsgpackMap(out, 6);
  AppendField(out, "num_prefill_requests", metrics.queued_prefill.count);
  AppendField(out, "sum_prefill_tokens", metrics.queued_prefill.sum);
  AppendField(out, "var_prefill_length", metrics.queued_prefill.variance);
  AppendField(out, "num_decode_requests", metrics.queued_decode.count);
  AppendField(out, "sum_decode_kv_tokens", metrics.queued_decode.sum);
  AppendField(out, "var_decode_kv_tokens", metrics.queued_decode.variance);
}

Result<ForwardPassMetrics> DecodeForwardPass(std::string_view msgpack) {
  ForwardPassMetrics metrics;
  UNDERSTUDY_TRY_STATUS(ReadWholeMsgpack(
      "forward-pass metrics", msgpack, [&](MsgpackReader& reader, Problem& problem) {
        return ReadForwardPass(reader, metrics, problem);
      }));
  return metrics;
}

void AppendSequenceEvent(std::string& out, const SequenceEvent& event) {
  AppendMsgpackMap(out, 5);
  AppendMsgpackText(out, "request_id");
  AppendMsgpackText(out, ToUtf8(event.request_id));
  AppendMsgpackText(out, "worker");
  AppendMsgpackMap(out, 2);
  AppendField(out, "worker_id", event.worker_id);
  AppendField(out, "dp_rank", std::uint64_t{event.dp_rank});
  AppendMsgpackText(out, "data");
  AppendMsgpackText(out, event.kind);
  AppendField(out, "router_id", event.router_id);
  AppendMsgpackText(out, "lora_name");
  AppendMsgpackNil(out);
}

void AppendSequenceGroupHead(std::string& out, std::size_t count) {
  AppendMsgpackMap(out, 1);
  AppendMsgpackText(out, "events");
  AppendMsgpackArray(out, count);
}

Result<SequenceEvent> DecodeSequenceEvent(std::string_view msgpack) {
  SequenceEvent event;
  UNDERSTUDY_TRY_STATUS(
      ReadWholeMsgpack("sequence event", msgpack, [&](MsgpackReader& reader, Problem& problem) {
        return ReadSequenceEvent(reader, event, problem);
      }));
  return event;
}

}  // namespace understudy::transport
