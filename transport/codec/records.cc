// Source: wire.md 2.2, 2.3; vectors/wire/etcd_1.3.0_*.json.
#include "understudy/transport/records.h"

#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/json_writer.h"
#include "transport/codec/record_writer.h"

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 64;

bool ReadTransport(JsonValue value, InstanceRecord& out, Problem& problem) {
  unsigned members = 0;
  const auto field = [&](std::string_view key, JsonValue item) {
    ++members;
    out.transport_kind = key;
    return ReadText(item, "transport." + std::string(key), out.transport_value, problem);
  };
  if (!value.Fields(field)) {
    return problem.Malformed("transport", "not an object");
  }
  return members == 1 || problem.Malformed("transport", "needs exactly one address");
}

bool ReadInstance(JsonValue value, InstanceRecord& out, Problem& problem) {
  enum Bit : unsigned {
    kType,
    kNamespace,
    kComponent,
    kEndpoint,
    kId,
    kTransport,
    kDevice,
    kCodec
  };
  std::string type;
  SeenKeys seen;
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "type") {
      return seen.First(kType, key, problem) && ReadText(item, key, type, problem);
    }
    if (key == "namespace") {
      return seen.First(kNamespace, key, problem) && ReadText(item, key, out.name.ns, problem);
    }
    if (key == "component") {
      return seen.First(kComponent, key, problem) &&
             ReadText(item, key, out.name.component, problem);
    }
    if (key == "endpoint") {
      return seen.First(kEndpoint, key, problem) && ReadText(item, key, out.name.endpoint, problem);
    }
    if (key == "instance_id") {
      return seen.First(kId, key, problem) && ReadU64(item, key, out.instance_id, problem);
    }
    if (key == "transport") {
      return seen.First(kTransport, key, problem) && ReadTransport(item, out, problem);
    }
    if (key == "device_type") {
      return seen.First(kDevice, key, problem) &&
             ReadOptionalText(item, key, out.device_type, problem);
    }
    if (key == "request_plane_codec") {
      return seen.First(kCodec, key, problem) &&
             ReadOptionalText(item, key, out.request_plane_codec, problem);
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  if (type != "Endpoint") {
    return problem.Malformed("type", "'" + type + "' is not 'Endpoint'");
  }
  constexpr std::string_view kMandatory[] = {
      "namespace", "component", "endpoint", "instance_id", "transport"};
  for (unsigned bit = kNamespace; bit <= kTransport; ++bit) {
    if (!seen.Has(bit)) {
      return problem.Malformed(kMandatory[bit - kNamespace], "missing");
    }
  }
  return true;
}

std::string KeyOf(std::string_view bucket, const EndpointName& name, std::uint64_t id) {
  std::string key("v1/");
  key.append(bucket).append("/").append(name.ns).append("/").append(name.component).append("/");
  return key.append(name.endpoint).append("/").append(HexId(id));
}

}  // namespace

void WriteInstanceMembers(JsonWriter& json, const InstanceRecord& instance) {
  json.Key("component").Text(instance.name.component);
  json.Key("endpoint").Text(instance.name.endpoint);
  json.Key("namespace").Text(instance.name.ns);
  json.Key("instance_id").Number(instance.instance_id);
  json.Key("transport").BeginObject();
  json.Key(instance.transport_kind).Text(instance.transport_value).EndObject();
  if (instance.device_type) {
    json.Key("device_type").Text(*instance.device_type);
  }
  if (instance.request_plane_codec) {
    json.Key("request_plane_codec").Text(*instance.request_plane_codec);
  }
}

Record EncodeInstance(const InstanceRecord& instance) {
  JsonWriter json;
  json.BeginObject().Key("type").Text("Endpoint");
  WriteInstanceMembers(json, instance);
  json.EndObject();
  return {KeyOf("instances", instance.name, instance.instance_id), json.Take()};
}

Result<InstanceRecord> DecodeInstance(std::string_view json) {
  constexpr const char* kWhat = "instance record";
  InstanceRecord instance;
  Problem problem;
  auto value = ParseJson(json, kNestingMax);
  if (!value) {
    return FailWith(kWhat, std::move(value).error());
  }
  if (!ReadInstance(*value, instance, problem)) {
    return FailWith(kWhat, problem.Take());
  }
  return instance;
}

Record EncodeModel(const EndpointName& name, std::uint64_t instance_id, const ModelCard& card) {
  JsonWriter json;
  json.BeginObject().Key("type").Text("Model").Key("namespace").Text(name.ns);
  json.Key("component").Text(name.component).Key("endpoint").Text(name.endpoint);
  json.Key("instance_id").Number(instance_id);
  json.Key("card_json").Raw(EncodeCard(card)).EndObject();
  return {KeyOf("mdc", name, instance_id), json.Take()};
}

}  // namespace understudy::transport
