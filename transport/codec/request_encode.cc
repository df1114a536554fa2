#include "transport/codec/json_writer.h"
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "understudy/transport/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace understudy::transport {
namespace {

/// The same calls for JSON and msgpack, so that one function writes both. A map's size is known
/// when it begins.
class JsonSink {
 public:
  void Map(std::size_t) { writer_.BeginObject(); }
  void EndMap() { writer_.EndObject(); }
  void Array(std::size_t) { writer_.BeginArray(); }
  void EndArray() { writer_.EndArray(); }
  void Key(std::string_view key) { writer_.Key(key); }
  void Text(std::string_view text) { writer_.Text(text); }
  void Uint(std::uint64_t number) { writer_.Number(number); }
  void Bool(bool value) { writer_.Bool(value); }
  void Double(double number) {
    if (!std::isfinite(number)) {
      writer_.Null();
      return;
    }
    std::array<char, 40> text{};
    char* end = std::to_chars(text.data(), text.data() + text.size() - 2, number).ptr;
    if (std::none_of(text.data(), end, [](char c) { return c == '.' || c == 'e'; })) {
      // Readers take bare digits for an integer and refuse those that need more than 64 bits.
      *end++ = '.';
      *end++ = '0';
    }
    writer_.Raw({text.data(), static_cast<std::size_t>(end - text.data())});
  }
  std::string Take() { return writer_.Take(); }

 private:
  JsonWriter writer_;
};

class MsgpackSink {
 public:
  void Map(std::size_t size) { AppendMsgpackMap(out_, size); }
  void EndMap() {}
  void Array(std::size_t size) { AppendMsgpackArray(out_, size); }
  void EndArray() {}
  void Key(std::string_view key) { AppendMsgpackText(out_, key); }
  void Text(std::string_view text) { AppendMsgpackText(out_, ToUtf8(text)); }
  void Uint(std::uint64_t number) { AppendMsgpackUint(out_, number); }
  void Bool(bool value) { AppendMsgpackBool(out_, value); }
  void Double(double number) { AppendMsgpackDouble(out_, number); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

std::size_t Count(std::initializer_list<bool> set) {
  std::size_t count = 0;
  for (const bool one : set) {
    count += one ? 1U : 0U;
  }
  return count;
}

template <class Sink>
void WriteStopConditions(Sink& sink, const PreprocessedRequest& request) {
  sink.Key("stop_conditions");
  sink.Map(Count({request.max_tokens.has_value(),
                  request.min_tokens.has_value(),
                  request.ignore_eos.has_value()}));
  if (request.max_tokens) {
    sink.Key("max_tokens");
    sink.Uint(*request.max_tokens);
  }
  if (request.min_tokens) {
    sink.Key("min_tokens");
    sink.Uint(*request.min_tokens);
  }
  if (request.ignore_eos) {
    sink.Key("ignore_eos");
    sink.Bool(*request.ignore_eos);
  }
  sink.EndMap();
}

template <class Sink>
void WriteRouting(Sink& sink, const PreprocessedRequest& request) {
  sink.Key("routing");
  sink.Map(Count({request.backend_instance_id.has_value(), request.dp_rank.has_value()}));
  if (request.backend_instance_id) {
    sink.Key("backend_instance_id");
    sink.Uint(*request.backend_instance_id);
  }
  if (request.dp_rank) {
    sink.Key("dp_rank");
    sink.Uint(*request.dp_rank);
  }
  sink.EndMap();
}

template <class Sink>
void WriteBootstrap(Sink& sink, const PreprocessedRequest& request) {
  sink.Key("bootstrap_info");
  sink.Map(request.handoff_id ? 1 : 0);
  if (request.handoff_id) {
    sink.Key("handoff_id");
    sink.Text(*request.handoff_id);
  }
  sink.EndMap();
}

/// sampling_options, output_options and eos_token_ids are mandatory for a real worker.
template <class Sink>
void WriteDefaults(Sink& sink) {
  sink.Key("sampling_options");
  sink.Map(0);
  sink.EndMap();
  sink.Key("output_options");
  sink.Map(0);
  sink.EndMap();
  sink.Key("eos_token_ids");
  sink.Array(0);
  sink.EndArray();
}

template <class Sink>
std::string Write(Sink sink, const PreprocessedRequest& request) {
  constexpr std::size_t kAlways = 7;
  const bool routed = request.dp_rank || request.backend_instance_id;
  const bool handed_off = request.has_bootstrap_info || request.handoff_id;
  sink.Map(
      kAlways +
      Count({routed, handed_off, request.request_timestamp_ms.has_value(), request.health_check}));
  sink.Key("model");
  sink.Text(request.model);
  sink.Key("token_ids");
  sink.Array(request.token_ids.size());
  for (const std::uint32_t token : request.token_ids) {
    sink.Uint(token);
  }
  sink.EndArray();
  WriteStopConditions(sink, request);
  WriteDefaults(sink);
  sink.Key("annotations");
  sink.Array(request.annotations.size());
  for (const std::string& annotation : request.annotations) {
    sink.Text(annotation);
  }
  sink.EndArray();
  if (routed) {
    WriteRouting(sink, request);
  }
  if (handed_off) {
    WriteBootstrap(sink, request);
  }
  if (request.request_timestamp_ms) {
    sink.Key("request_timestamp_ms");
    sink.Double(*request.request_timestamp_ms);
  }
  if (request.health_check) {
    sink.Key("_HEALTH_CHECK");
    sink.Bool(true);
  }
  sink.EndMap();
  return sink.Take();
}

}  // namespace

std::string EncodeRequest(PayloadCodec codec, const PreprocessedRequest& request) {
  return codec == PayloadCodec::kJson ? Write(JsonSink(), request) : Write(MsgpackSink(), request);
}

}  // namespace understudy::transport
