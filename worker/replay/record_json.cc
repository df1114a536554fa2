// One line per request, many of them: written by hand, which is ten times as fast as a JSON tree.
#include "worker/replay/report_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

void AppendNumber(std::string& out, double value) {
  if (!std::isfinite(value)) {  // JSON has no such number
    out += "null";
    return;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
  // A reader that tells integers from reals shall see a real, as the reference writes it.
  if (std::string_view(text.data(), static_cast<std::size_t>(end - text.data()))
          .find_first_of(".e") == std::string_view::npos) {
    out += ".0";
  }
}
void AppendNumber(std::string& out, std::uint32_t value) {
  out += std::to_string(value);
}

template <class T>
void AppendNumber(std::string& out, const std::optional<T>& value) {
  if (value) {
    AppendNumber(out, *value);
  } else {
    out += "null";
  }
}

void AppendText(std::string& out, const std::string& text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* StatusName(mocker::ReplayStatus status) {
  switch (status) {
    case mocker::ReplayStatus::kRejected:
      return "rejected";
    case mocker::ReplayStatus::kCanceled:
      return "canceled";
    case mocker::ReplayStatus::kFailed:
      return "failed";
    case mocker::ReplayStatus::kCompleted:
      break;
  }
  return "completed";
}

}  // namespace

void AppendReplayRecordJson(const mocker::ReplayRecord& record, std::string& out) {
  const auto number = [&out](const char* key, const auto& value) {
    out += ",\"";
    out += key;
    out += "\":";
    AppendNumber(out, value);
  };
  out += "{\"session_id\":";
  if (record.session_id.empty()) {
    out += "null";
  } else {
    AppendText(out, record.session_id);
  }
  number("turn_index", record.turn);
  out += ",\"uuid\":";
  AppendText(out, record.uuid);
  number("arrival_time_ms", record.arrival_time_ms);
  number("first_admit_ms", record.first_admit_ms);
  number("first_token_ms", record.first_token_ms);
  number("last_token_ms", record.last_token_ms);
  number("ttft_ms", record.ttft_ms);
  number("ttst_ms", record.ttst_ms);
  number("e2e_latency_ms", record.e2e_latency_ms);
  number("itl_ms", record.itl_ms);
  number("input_length", record.input_length);
  number("output_length", record.output_length);
  number("reused_input_tokens", record.reused_input_tokens);
  number("prefill_worker_idx", record.prefill_worker_idx);
  number("decode_worker_idx", record.decode_worker_idx);
  number("prefill_admit_ms", record.prefill_admit_ms);
  number("source_held_ms", record.source_held_ms);
  number("destination_reserved_ms", record.destination_reserved_ms);
  number("destination_activated_ms", record.destination_activated_ms);
  number("decode_admit_ms", record.decode_admit_ms);
  number("source_released_ms", record.source_released_ms);
  number("decode_reused_input_tokens", record.decode_reused_input_tokens);
  number("prefill_route_overlap_tokens", record.prefill_route_overlap_tokens);
  number("decode_route_overlap_tokens", record.decode_route_overlap_tokens);
  out += ",\"terminal_status\":\"";
  out += StatusName(record.status);
  out += "\"}\n";
}

}  // namespace understudy::worker
