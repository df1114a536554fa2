#include "transport/codec/jet_stream_api.h"

#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/json_writer.h"

namespace understudy::transport {
namespace {

constexpr std::size_t kNestingMax = 64;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

bool ReadError(JsonValue value, JetStreamError& out, Problem& problem) {
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "code") {
      return ReadU64(item, "error.code", out.code, problem);
    }
    if (key == "err_code") {
      return ReadU64(item, "error.err_code", out.err_code, problem);
    }
    return key != "description" || ReadText(item, "error.description", out.description, problem);
  };
  return value.Fields(field) || problem.Malformed("error", "not an object");
}

}  // namespace

std::string EncodeStreamConfig(const StreamConfig& config) {
  JsonWriter json;
  json.BeginObject().Key("name").Text(config.name);
  json.Key("subjects").BeginArray().Text(config.name + ".*").EndArray();
  json.Key("retention").Text("limits").Key("storage").Text("file");
  json.Key("max_age").Number(config.max_age_s * kNanosecondsPerSecond);
  json.Key("num_replicas").Number(1).EndObject();
  return json.Take();
}

Result<std::optional<JetStreamError>> ParseJetStreamReply(std::string_view json) {
  constexpr const char* kWhat = "JetStream answer";
  auto value = ParseJson(json, kNestingMax);
  if (!value) {
    return FailWith(kWhat, value.error());
  }
  std::optional<JetStreamError> error;
  Problem problem;
  const auto field = [&](std::string_view key, JsonValue item) {
    return key != "error" || ReadError(item, error.emplace(), problem);
  };
  if (!value->Fields(field)) {
    problem.Malformed("", "not an object");
    return FailWith(kWhat, problem.Take());
  }
  return error;
}

}  // namespace understudy::transport
