// Control header of a request. Source: wire.md 4.3; dynamo-runtime 1.3.0 RequestControlMessage;
// vectors/wire/request_*.json.
#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/json_writer.h"
#include "understudy/transport/codec.h"

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 16;
constexpr std::string_view kTcpServer = "tcp_server";

bool ReadConnectionInfo(JsonValue value, RequestControl& out, std::string& info, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "transport") {
      return seen.First(0, key, problem) &&
             ReadText(item, "connection_info.transport", out.transport, problem);
    }
    if (key == "info") {
      return seen.First(1, key, problem) && ReadText(item, "connection_info.info", info, problem);
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("connection_info", "not an object");
  }
  if (!seen.Has(0)) {
    return problem.Malformed("connection_info.transport", "missing");
  }
  return seen.Has(1) || problem.Malformed("connection_info.info", "missing");
}

bool ReadCodec(JsonValue value, RequestControl& out, Problem& problem) {
  std::optional<std::string> name;
  if (!ReadOptionalText(value, "payload_codec", name, problem)) {
    return false;
  }
  if (name == "msgpack") {
    out.codec = PayloadCodec::kMsgpack;
  } else if (name && name != "json") {
    out.unknown_codec = std::move(name);
  }
  return true;
}

bool ReadControl(JsonValue value, RequestControl& out, std::string& info, Problem& problem) {
  SeenKeys seen;
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "id") {
      return seen.First(0, key, problem) && ReadText(item, "id", out.id, problem);
    }
    if (key == "connection_info") {
      return seen.First(1, key, problem) && ReadConnectionInfo(item, out, info, problem);
    }
    if (key == "response_type") {
      return seen.First(2, key, problem) &&
             ReadText(item, "response_type", out.response_type, problem);
    }
    if (key == "payload_codec") {
      return seen.First(3, key, problem) && ReadCodec(item, out, problem);
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  if (out.id.empty()) {
    return problem.Malformed("id", "missing");
  }
  return seen.Has(1) || problem.Malformed("connection_info", "missing");
}

bool ReadInfo(JsonValue value, RequestControl& out, Problem& problem) {
  struct Part {
    std::string_view key;
    std::string* text;
  };
  const Part parts[] = {{"address", &out.address},
                        {"subject", &out.subject},
                        {"context", &out.context},
                        {"stream_type", &out.stream_type}};
  SeenKeys seen;
  const auto field = [&](std::string_view key, JsonValue item) {
    for (unsigned i = 0; i < std::size(parts); ++i) {
      if (parts[i].key == key) {
        return seen.First(i, key, problem) && ReadText(item, key, *parts[i].text, problem);
      }
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  for (const Part& part : parts) {
    if (part.text->empty()) {
      return problem.Malformed(part.key, "missing");
    }
  }
  if (out.context != out.id) {
    return problem.Malformed("context", "differs from the id of the request");
  }
  return out.stream_type == "response" ||
         problem.Malformed("stream_type", "'" + out.stream_type + "' is not 'response'");
}

}  // namespace

Result<RequestControl> ParseRequestControl(std::string_view json) {
  constexpr const char* kWhat = "control header";
  if (json.size() > kControlHeaderBytesMax) {
    return Fail(Errc::kMalformed,
                "control header: " + std::to_string(json.size()) + " bytes, limit " +
                    std::to_string(kControlHeaderBytesMax));
  }
  RequestControl control;
  std::string info;
  Problem problem;
  {
    auto value = ParseJson(json, kNestingMax);
    if (!value) {
      return FailWith(kWhat, std::move(value).error());
    }
    if (!ReadControl(*value, control, info, problem)) {
      return FailWith(kWhat, problem.Take());
    }
  }
  if (control.transport != kTcpServer) {
    return control;  // what another transport puts into info is not known here
  }
  auto value = ParseJson(info, kNestingMax);
  if (!value) {
    return FailWith("control header: connection_info.info", std::move(value).error());
  }
  if (!ReadInfo(*value, control, problem)) {
    return FailWith("control header: connection_info.info", problem.Take());
  }
  return control;
}

std::string EncodeRequestControl(const RequestControl& control) {
  JsonWriter info;
  info.BeginObject();
  info.Key("address").Text(control.address).Key("subject").Text(control.subject);
  info.Key("context").Text(control.context).Key("stream_type").Text(control.stream_type);
  info.EndObject();
  std::string_view codec = control.codec == PayloadCodec::kMsgpack ? "msgpack" : "json";
  if (control.unknown_codec) {
    codec = *control.unknown_codec;
  }
  JsonWriter header;
  header.BeginObject();
  header.Key("id").Text(control.id).Key("request_type").Text("single_in");
  header.Key("response_type").Text("many_out").Key("payload_codec").Text(codec);
  header.Key("connection_info").BeginObject();
  header.Key("transport").Text(control.transport).Key("info").Text(info.Take()).EndObject();
  header.EndObject();
  return header.Take();
}

}  // namespace understudy::transport
