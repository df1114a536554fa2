#include "transport/codec/value_sinks.h"
#include "understudy/transport/codec.h"

#include <initializer_list>

namespace understudy::transport {
namespace {

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
void WriteBootstrap(Sink& sink, const BootstrapInfo& info) {
  sink.Key("bootstrap_info");
  sink.Map(info.handoff_id ? 4 : 3);
  sink.Key("bootstrap_host");
  sink.PeerText(info.host);
  sink.Key("bootstrap_port");
  sink.Uint(info.port);
  sink.Key("bootstrap_room");
  sink.Uint(info.room);
  if (info.handoff_id) {
    sink.Key("handoff_id");
    sink.Id(*info.handoff_id);
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
void Write(Sink& sink, const PreprocessedRequest& request) {
  constexpr std::size_t kAlways = 7;
  const bool routed = request.dp_rank || request.backend_instance_id;
  const bool handed_off = request.bootstrap_info.has_value();
  sink.Map(
      kAlways +
      Count({routed, handed_off, request.request_timestamp_ms.has_value(), request.health_check}));
  sink.Key("model");
  sink.PeerText(request.model);
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
    sink.PeerText(annotation);
  }
  sink.EndArray();
  if (routed) {
    WriteRouting(sink, request);
  }
  if (handed_off) {
    WriteBootstrap(sink, *request.bootstrap_info);
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
}

}  // namespace

std::string EncodeRequest(PayloadCodec codec, const PreprocessedRequest& request) {
  if (codec == PayloadCodec::kJson) {
    JsonSink sink;
    Write(sink, request);
    return sink.Take();
  }
  std::string out;
  MsgpackSink sink(out);
  Write(sink, request);
  return out;
}

}  // namespace understudy::transport
