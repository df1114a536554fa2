// RouterEvent -> msgpack and JSON. Source: events.md 3.
#include "transport/codec/value_sinks.h"
#include "understudy/base/assert.h"
#include "understudy/transport/router_event.h"

#include <array>

namespace understudy::transport {
namespace {

constexpr std::array<std::string_view, 4> kTierNames = {
    "device", "host_pinned", "disk", "external"};
constexpr std::size_t kEventBytes = 160;  // without blocks, to reserve
constexpr std::size_t kBlockBytes = 64;

template <class Sink>
void WriteMmInfo(Sink& sink, const std::vector<MmObject>& objects) {
  sink.Map(1);
  sink.Key("mm_objects");
  sink.Array(objects.size());
  for (const MmObject& object : objects) {
    sink.Map(2);
    sink.Key("mm_hash");
    sink.Uint(object.mm_hash);
    sink.Key("offsets");
    sink.Array(object.offsets.size());
    for (const auto& [begin, end] : object.offsets) {
      sink.Array(2);
      sink.Uint(begin);
      sink.Uint(end);
      sink.EndArray();
    }
    sink.EndArray();
    sink.EndMap();
  }
  sink.EndArray();
  sink.EndMap();
}

template <class Sink>
void WriteBlocks(Sink& sink, const RouterEvent& event) {
  sink.Array(event.blocks.size());
  std::size_t next_info = 0;
  for (std::size_t i = 0; i < event.blocks.size(); ++i) {
    sink.Map(3);
    sink.Key("block_hash");
    sink.Uint(Value(event.blocks[i].block_hash));
    sink.Key("tokens_hash");
    sink.Uint(Value(event.blocks[i].tokens_hash));
    sink.Key("mm_extra_info");
    if (next_info < event.mm_infos.size() && event.mm_infos[next_info].block == i) {
      WriteMmInfo(sink, event.mm_infos[next_info++].objects);
    } else {
      sink.Null();
    }
    sink.EndMap();
  }
  sink.EndArray();
}

template <class Sink>
void WriteStored(Sink& sink, const RouterEvent& event) {
  sink.Map(1);
  sink.Key("stored");
  sink.Map(3);
  sink.Key("parent_hash");
  if (event.parent) {
    sink.Uint(Value(*event.parent));
  } else {
    sink.Null();
  }
  sink.Key("start_position");
  if (event.start_position) {
    sink.Uint(*event.start_position);
  } else {
    sink.Null();
  }
  sink.Key("blocks");
  WriteBlocks(sink, event);
  sink.EndMap();
  sink.EndMap();
}

template <class Sink>
void WriteRemoved(Sink& sink, const RouterEvent& event) {
  sink.Map(1);
  sink.Key("removed");
  sink.Map(1);
  sink.Key("block_hashes");
  sink.Array(event.blocks.size());
  for (const RouterBlock& block : event.blocks) {
    sink.Uint(Value(block.block_hash));
  }
  sink.EndArray();
  sink.EndMap();
  sink.EndMap();
}

template <class Sink>
void WriteInner(Sink& sink, const RouterEvent& event) {
  sink.Map(3);
  sink.Key("event_id");
  sink.Uint(event.event_id);
  sink.Key("data");
  switch (event.kind) {
    case RouterEvent::Kind::kStored:
      WriteStored(sink, event);
      break;
    case RouterEvent::Kind::kRemoved:
      WriteRemoved(sink, event);
      break;
    case RouterEvent::Kind::kCleared:
      sink.Text("cleared");
      break;
  }
  sink.Key("dp_rank");
  sink.Uint(Value(event.dp_rank));
  sink.EndMap();
}

template <class Sink>
void WriteEvent(Sink& sink, const RouterEvent& event, RouterEventForm form) {
  const bool has_domain = form.has_residency && event.domain == ResidencyDomain::kWorker;
  const bool has_session = form.has_residency && event.session_id.has_value();
  sink.Map(3U + (has_domain ? 1U : 0U) + (has_session ? 1U : 0U));
  sink.Key("worker_id");
  sink.Uint(Value(event.worker_id));
  sink.Key("storage_tier");
  sink.Text(TierName(event.tier));
  if (has_domain) {
    sink.Key("residency_domain");
    sink.Text("worker");
  }
  sink.Key("event");
  WriteInner(sink, event);
  if (has_session) {
    sink.Key("session_id");
    sink.PeerText(*event.session_id);
  }
  sink.EndMap();
}

}  // namespace

std::string_view TierName(StorageTier tier) {
  return kTierNames[static_cast<std::size_t>(tier)];
}

std::optional<StorageTier> TierOfName(std::string_view name) {
  for (std::size_t i = 0; i < kTierNames.size(); ++i) {
    if (kTierNames[i] == name) {
      return static_cast<StorageTier>(i);
    }
  }
  return std::nullopt;
}

void AppendRouterEvent(std::string& msgpack, const RouterEvent& event, RouterEventForm form) {
  MsgpackSink sink(msgpack);
  WriteEvent(sink, event, form);
}

void AppendRouterEventJson(std::string& json, const RouterEvent& event, RouterEventForm form) {
  JsonSink sink;
  WriteEvent(sink, event, form);
  json += sink.Take();
}

void AppendRouterEventsHead(std::string& msgpack, std::size_t count) {
  AppendMsgpackArray(msgpack, count);
}

std::string EncodeRouterEvents(std::span<const RouterEvent> events, RouterEventForm form) {
  UNDERSTUDY_ASSERT(form.in_array || events.size() == 1);
  std::string out;
  std::size_t bytes = 5;
  for (const RouterEvent& event : events) {
    bytes += kEventBytes + kBlockBytes * event.blocks.size();
  }
  out.reserve(bytes);
  if (form.in_array) {
    AppendMsgpackArray(out, events.size());
  }
  for (const RouterEvent& event : events) {
    AppendRouterEvent(out, event, form);
  }
  return out;
}

}  // namespace understudy::transport
