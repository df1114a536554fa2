#include "understudy/transport/event_records.h"

#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/json_writer.h"
#include "transport/codec/record_writer.h"

#include <algorithm>
#include <array>

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 64;
constexpr std::array<std::string_view, 3> kKinds = {"Nats", "Zmq", "ZmqBroker"};
constexpr std::array<std::string_view, 2> kAddressKeys = {"subject_prefix", "endpoint"};
constexpr std::array<std::string_view, 2> kBrokerKeys = {"xsub_endpoints", "xpub_endpoints"};
constexpr std::uint64_t kBrokerEndpointsMax = 64;

/// A segment of a subject or key as 1.6 writes it.
std::string Segment(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      ((out += '%') += kHex[byte >> 4U]) += kHex[byte & 15U];
    }
  }
  return out;
}

std::string EndpointPath(const EventChannel& channel, char separator) {
  std::string path = "namespace";
  for (const auto& [key, text] : {std::pair{"", &channel.place.ns},
                                  std::pair{"component", &channel.place.component},
                                  std::pair{"endpoint", &channel.place.endpoint}}) {
    path += *key == '\0' ? "" : separator + std::string(key);
    (path += separator) += Segment(*text);
  }
  return path;
}

std::string KeyOf(std::string_view bucket, const EventChannel& channel) {
  std::string key("v1/");
  key.append(bucket).append("/");
  if (channel.scope == EventScope::kEndpoint) {
    key += EndpointPath(channel, '/') + "/topic/" + Segment(channel.topic);
  } else {
    const bool component = channel.scope == EventScope::kComponent;
    key +=
        channel.place.ns + "/" + (component ? channel.place.component : "") + "/" + channel.topic;
  }
  return key + "/" + HexId(channel.publisher_id);
}

void WriteEndpoint(JsonWriter& json, const EndpointName& name) {
  json.BeginObject().Key("namespace").Text(name.ns).Key("component").Text(name.component);
  json.Key("name").Text(name.endpoint).EndObject();
}

void WriteScope(JsonWriter& json, const EventChannel& channel) {
  json.Key("scope").BeginObject().Key("kind").Text("endpoint").Key("endpoint");
  WriteEndpoint(json, channel.place);
  json.EndObject();
}

void WriteTexts(JsonWriter& json, const std::vector<std::string>& texts) {
  json.BeginArray();
  for (const std::string& text : texts) {
    json.Text(text);
  }
  json.EndArray();
}

bool ReadEndpoints(JsonValue value,
                   std::string_view key,
                   std::vector<std::string>& out,
                   Problem& problem) {
  const auto begin = [&](std::uint64_t count) {
    return count <= kBrokerEndpointsMax ||
           problem.Malformed(key, "more than " + std::to_string(kBrokerEndpointsMax) + " items");
  };
  const auto item = [&](JsonValue text) {
    return ReadText(text, key, out.emplace_back(), problem);
  };
  return value.Items(begin, item) || problem.Malformed(key, "not an array of strings");
}

bool ReadTransport(JsonValue value, EventTransport& out, Problem& problem) {
  std::string kind;
  const auto config = [&](std::string_view key, JsonValue item) {
    if (key == kBrokerKeys[0] || key == kBrokerKeys[1]) {
      return ReadEndpoints(item, key, key == kBrokerKeys[0] ? out.xsub : out.xpub, problem);
    }
    const bool known = key == kAddressKeys[0] || key == kAddressKeys[1];
    return known ? ReadText(item, key, out.address, problem) : item.Skip();
  };
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "kind") {
      return ReadText(item, "transport.kind", kind, problem);
    }
    return key != "config" || item.Fields(config) ||
           problem.Malformed("transport.config", "not an object");
  };
  if (!value.Fields(field)) {
    return problem.Malformed("transport", "not an object");
  }
  const auto* const found = std::find(kKinds.begin(), kKinds.end(), kind);
  if (found == kKinds.end()) {
    return problem.Unsupported("transport.kind", "'" + kind + "' (known: Nats, Zmq, ZmqBroker)");
  }
  out.kind = static_cast<EventTransport::Kind>(found - kKinds.begin());
  const bool complete = out.kind == EventTransport::Kind::kZmqBroker
                            ? !out.xsub.empty() && !out.xpub.empty()
                            : !out.address.empty();
  return complete || problem.Malformed("transport.config", "has no address");
}

bool ReadScope(JsonValue value, EventChannel& out, Problem& problem) {
  out.scope = EventScope::kEndpoint;
  const auto endpoint = [&](std::string_view key, JsonValue item) {
    if (key == "namespace") {
      return ReadText(item, "scope.namespace", out.place.ns, problem);
    }
    if (key == "component") {
      return ReadText(item, "scope.component", out.place.component, problem);
    }
    return key != "name" || ReadText(item, "scope.name", out.place.endpoint, problem);
  };
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "endpoint") {
      return item.Fields(endpoint) || problem.Malformed("scope.endpoint", "not an object");
    }
    return endpoint(key, item);  // scopes above the endpoint name their parts directly
  };
  return value.Fields(field) || problem.Malformed("scope", "not an object");
}

bool ReadChannel(JsonValue value, EventChannelRecord& out, Problem& problem) {
  SeenKeys seen;
  std::string type;
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "type") {
      return ReadText(item, key, type, problem);
    }
    if (key == "scope") {
      return ReadScope(item, out.channel, problem);
    }
    if (key == "namespace") {
      return ReadText(item, key, out.channel.place.ns, problem);
    }
    if (key == "component") {
      return ReadText(item, key, out.channel.place.component, problem);
    }
    if (key == "topic") {
      return seen.First(0, key, problem) && ReadText(item, key, out.channel.topic, problem);
    }
    if (key == "instance_id") {
      return seen.First(1, key, problem) && ReadU64(item, key, out.channel.publisher_id, problem);
    }
    if (key == "transport") {
      return seen.First(2, key, problem) && ReadTransport(item, out.transport, problem);
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  if (type != "EventChannel") {
    return problem.Malformed("type", "'" + type + "' is not 'EventChannel'");
  }
  unsigned bit = 0;
  for (const std::string_view name : {"topic", "instance_id", "transport"}) {
    if (!seen.Has(bit++)) {
      return problem.Malformed(name, "missing");
    }
  }
  if (out.channel.scope == EventScope::kComponent && out.channel.place.component.empty()) {
    out.channel.scope = EventScope::kNamespace;
  }
  return true;
}

}  // namespace

std::string SubjectPrefix(const EventChannel& channel) {
  if (channel.scope == EventScope::kEndpoint) {
    return EndpointPath(channel, '.');
  }
  const std::string prefix = "namespace." + channel.place.ns;
  return channel.scope == EventScope::kNamespace ? prefix
                                                 : prefix + ".component." + channel.place.component;
}

std::string EventSubject(const EventChannel& channel) {
  return SubjectPrefix(channel) + "." + channel.topic;
}

Record EncodeEventChannel(const EventChannel& channel, const EventTransport& transport) {
  JsonWriter json;
  json.BeginObject().Key("type").Text("EventChannel");
  if (channel.scope == EventScope::kEndpoint) {
    WriteScope(json, channel);
  } else {
    const bool component = channel.scope == EventScope::kComponent;
    json.Key("namespace").Text(channel.place.ns);
    json.Key("component").Text(component ? channel.place.component : "");
  }
  const auto kind = static_cast<std::size_t>(transport.kind);
  json.Key("topic").Text(channel.topic).Key("instance_id").Number(channel.publisher_id);
  json.Key("transport").BeginObject().Key("kind").Text(kKinds.at(kind)).Key("config").BeginObject();
  if (transport.kind == EventTransport::Kind::kZmqBroker) {
    WriteTexts(json.Key(kBrokerKeys[0]), transport.xsub);
    WriteTexts(json.Key(kBrokerKeys[1]), transport.xpub);
  } else {
    json.Key(kAddressKeys.at(kind)).Text(transport.address);
  }
  json.EndObject().EndObject().EndObject();
  return {KeyOf("event_channels", channel), json.Take()};
}

Result<EventChannelRecord> DecodeEventChannel(std::string_view json) {
  constexpr const char* kWhat = "event channel record";
  EventChannelRecord record;
  Problem problem;
  auto value = ParseJson(json, kNestingMax);
  if (!value) {
    return FailWith(kWhat, value.error());
  }
  if (!ReadChannel(*value, record, problem)) {
    return FailWith(kWhat, problem.Take());
  }
  return record;
}

Record EncodeEventSource(const EventSource& source) {
  JsonWriter json;
  json.BeginObject().Key("type").Text("EventSource");
  WriteScope(json, source.channel);
  json.Key("topic").Text(source.channel.topic);
  json.Key("publisher_id").Number(source.channel.publisher_id);
  json.Key("metadata").BeginObject().Key("kv_state_endpoint");
  WriteEndpoint(json, source.channel.place);
  json.Key("worker").BeginObject().Key("worker_id").Number(source.worker_id);
  json.Key("dp_rank").Number(source.dp_rank).EndObject();
  json.Key("publisher_id").Number(source.channel.publisher_id);
  if (source.recovery_target) {
    json.Key("recovery_target").BeginObject();
    WriteInstanceMembers(json, *source.recovery_target);
    json.EndObject();
  }
  json.EndObject().EndObject();
  return {KeyOf("event_sources", source.channel), json.Take()};
}

}  // namespace understudy::transport
