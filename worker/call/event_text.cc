#include "understudy/transport/records.h"
#include "worker/call/printer.h"

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kLoadTopic = "kv_metrics";
constexpr auto kReplaceBadUtf8 = nlohmann::json::error_handler_t::replace;

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

}  // namespace

std::string DescribeEvent(std::string_view subject, std::string_view bytes) {
  const auto place = " subject=" + Plain(subject) + " bytes=" + std::to_string(bytes.size());
  const auto envelope = transport::DecodeEnvelope(bytes);
  if (!envelope) {
    return "event undecodable" + place + " error=" + Plain(envelope.error().message);
  }
  const auto from = " publisher=" + transport::HexId(envelope->publisher_id) +
                    " seq=" + std::to_string(envelope->sequence);
  if (envelope->topic != kLoadTopic) {
    return "event " + Plain(envelope->topic) + place + from;
  }
  const auto load = transport::DecodeActiveLoad(envelope->payload);
  if (!load) {
    return "event kv_metrics" + place + from + " undecodable=" + Plain(load.error().message);
  }
  return "event kv_metrics worker=" + transport::HexId(load->worker_id) +
         " rank=" + std::to_string(load->dp_rank) +
         " kv_used_blocks=" + Decimal(load->kv_used_blocks) +
         " active_decode_blocks=" + Decimal(load->active_decode_blocks) +
         " active_prefill_tokens=" + Decimal(load->active_prefill_tokens) + from;
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
  if (envelope->topic == kLoadTopic) {
    if (const auto load = transport::DecodeActiveLoad(envelope->payload)) {
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
    } else {
      line["error"] = load.error().message;
    }
  }
  return line.dump(-1, ' ', false, kReplaceBadUtf8);
}

}  // namespace understudy::worker
