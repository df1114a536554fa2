// One line about each message of the event plane, in the form of either release.
#include "understudy/transport/event_payloads.h"
#include "understudy/transport/records.h"
#include "understudy/transport/router_event.h"
#include "worker/call/printer.h"

#include <cstdio>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::ordered_json;
using transport::RouterEvent;

constexpr auto kReplaceBadUtf8 = nlohmann::json::error_handler_t::replace;
/// Of one event that people are shown; JSON lines have all.
constexpr std::size_t kHashesShown = 4;

std::string Decimal(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : "-";
}

/// Bytes of a peer on somebody's terminal: control characters become '?'.
std::string Plain(std::string_view text) {
  constexpr std::size_t kTextMax = 200;
  std::string plain(text.substr(0, kTextMax));
  for (auto& c : plain) {
    c = static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return plain;
}

const char* KindName(RouterEvent::Kind kind) {
  switch (kind) {
    case RouterEvent::Kind::kStored:
      return "stored";
    case RouterEvent::Kind::kRemoved:
      return "removed";
    case RouterEvent::Kind::kCleared:
      return "cleared";
  }
  return "?";
}

std::string DescribeKvEvent(const RouterEvent& event) {
  std::string text = " worker=" + transport::HexId(Value(event.worker_id)) +
                     " rank=" + std::to_string(Value(event.dp_rank)) +
                     " id=" + std::to_string(event.event_id) + " " + KindName(event.kind) +
                     " tier=" + std::string(transport::TierName(event.tier)) +
                     " blocks=" + std::to_string(event.blocks.size());
  if (event.parent) {
    text += " parent=" + transport::HexId(Value(*event.parent));
  }
  for (std::size_t i = 0; i < event.blocks.size() && i < kHashesShown; ++i) {
    text += (i == 0 ? " hashes=" : ",") + transport::HexId(Value(event.blocks[i].block_hash));
  }
  return text + (event.blocks.size() > kHashesShown ? ",..." : "");
}

Result<std::string> DescribeKvEvents(std::string_view payload) {
  UNDERSTUDY_TRY(const auto events, transport::DecodeRouterEvents(payload));
  std::string text = events.size() == 1 ? "" : " events=" + std::to_string(events.size());
  for (const RouterEvent& event : events) {
    text += (events.size() == 1 ? "" : " |") + DescribeKvEvent(event);
  }
  return text;
}

Result<std::string> DescribeLoad(std::string_view payload) {
  UNDERSTUDY_TRY(const auto load, transport::DecodeActiveLoad(payload));
  return " worker=" + transport::HexId(load.worker_id) + " rank=" + std::to_string(load.dp_rank) +
         " kv_used_blocks=" + Decimal(load.kv_used_blocks) +
         " active_decode_blocks=" + Decimal(load.active_decode_blocks) +
         " active_prefill_tokens=" + Decimal(load.active_prefill_tokens);
}

Result<std::string> DescribePass(std::string_view payload) {
  UNDERSTUDY_TRY(const auto pass, transport::DecodeForwardPass(payload));
  char wall[32];
  std::snprintf(wall, sizeof(wall), "%.6f", pass.wall_time_s);
  return " worker=" + Plain(pass.worker_id) + " rank=" + std::to_string(pass.dp_rank) +
         " counter=" + std::to_string(pass.counter_id) + " wall_time_s=" + wall +
         " prefill=" + std::to_string(pass.prefill.count) + "/" +
         std::to_string(pass.prefill_tokens) + " decode=" + std::to_string(pass.decode.count) +
         "/" + std::to_string(pass.decode.sum) +
         " queued=" + std::to_string(pass.queued_prefill.count + pass.queued_decode.count);
}

Result<std::string> DescribeSequence(std::string_view payload) {
  UNDERSTUDY_TRY(const auto event, transport::DecodeSequenceEvent(payload));
  return " worker=" + transport::HexId(event.worker_id) + " rank=" + std::to_string(event.dp_rank) +
         " " + Plain(event.kind) + " request=" + Plain(event.request_id);
}

/// What a topic's payload says, behind `event <topic>`; an error without a text: not one of ours.
Result<std::string> Describe(std::string_view topic, std::string_view payload) {
  if (topic == "kv-events") {
    return DescribeKvEvents(payload);
  }
  if (topic == "kv_metrics") {
    return DescribeLoad(payload);
  }
  if (topic == "forward-pass-metrics") {
    return DescribePass(payload);
  }
  if (topic == "active_sequences_events") {
    return DescribeSequence(payload);
  }
  return Fail(Errc::kUnsupported, "");
}

ordered_json JsonOf(const RouterEvent& event) {
  std::string text;
  transport::AppendRouterEventJson(text, event, transport::kRouterEventForm16);
  return ordered_json::parse(text);
}

/// The same facts as numbers. False: the topic is not one of ours, or `problem` says why.
bool PutPayload(ordered_json& line,
                std::string_view topic,
                std::string_view payload,
                std::string& problem) {
  const auto failed = [&](const auto& result) {
    if (!result) {
      problem = result.error().message;
    }
    return !result.has_value();
  };
  if (topic == "kv-events") {
    const auto events = transport::DecodeRouterEvents(payload);
    if (failed(events)) {
      return false;
    }
    line["events"] = ordered_json::array();
    for (const RouterEvent& event : *events) {
      line["events"].push_back(JsonOf(event));
    }
    return true;
  }
  if (topic == "kv_metrics") {
    const auto load = transport::DecodeActiveLoad(payload);
    if (failed(load)) {
      return false;
    }
    line["worker_id"] = load->worker_id;
    line["dp_rank"] = load->dp_rank;
    const auto put = [&line](const char* key, const std::optional<std::uint64_t>& number) {
      if (number) {
        line[key] = *number;
      }
    };
    put("kv_used_blocks", load->kv_used_blocks);
    put("active_decode_blocks", load->active_decode_blocks);
    put("active_prefill_tokens", load->active_prefill_tokens);
    return true;
  }
  if (topic == "forward-pass-metrics" || topic == "active_sequences_events") {
    line["payload"] = ordered_json::from_msgpack(
        payload.begin(), payload.end(), true, /*allow_exceptions=*/false);
    return !line["payload"].is_discarded();
  }
  return false;
}

}  // namespace

std::string DescribeEvent(std::string_view subject, std::string_view bytes) {
  const auto place = " subject=" + Plain(subject) + " bytes=" + std::to_string(bytes.size());
  const auto envelope = transport::DecodeEnvelope(bytes);
  if (!envelope) {
    return "event undecodable" + place + " error=" + Plain(envelope.error().message);
  }
  const auto from = " publisher=" + transport::HexId(envelope->publisher_id) +
                    " seq=" + std::to_string(envelope->sequence);
  const auto topic = "event " + Plain(envelope->topic);
  const auto text = Describe(envelope->topic, envelope->payload);
  if (text) {
    return topic + *text + from;
  }
  return topic + place + from +
         (text.error().message.empty() ? "" : " undecodable=" + Plain(text.error().message));
}

std::string DescribeEventJson(std::string_view subject, std::string_view bytes) {
  ordered_json line{{"type", "event"}, {"subject", std::string(subject)}, {"bytes", bytes.size()}};
  const auto envelope = transport::DecodeEnvelope(bytes);
  if (!envelope) {
    line["error"] = envelope.error().message;
    return line.dump(-1, ' ', false, kReplaceBadUtf8);
  }
  line["topic"] = envelope->topic;
  line["publisher_id"] = envelope->publisher_id;
  line["sequence"] = envelope->sequence;
  line["published_at_ms"] = envelope->published_at_ms;
  std::string problem;
  if (!PutPayload(line, envelope->topic, envelope->payload, problem)) {
    line.erase("payload");
    if (!problem.empty()) {
      line["error"] = problem;
    }
  }
  return line.dump(-1, ' ', false, kReplaceBadUtf8);
}

}  // namespace understudy::worker
