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

/// The members of one object, in the order in which they are put.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) { out_ += '{'; }

  template <class T>
  void Number(const char* key, const T& value) {
    Key(key);
    AppendNumber(out_, value);
  }
  void Word(const char* key, const char* value) {
    Key(key);
    out_ += '"';
    out_ += value;
    out_ += '"';
  }
  void Bare(const char* key, const char* value) {
    Key(key);
    out_ += value;
  }
  void End() { out_ += '}'; }

 private:
  void Key(const char* key) {
    out_ += first_ ? "\"" : ",\"";
    first_ = false;
    out_ += key;
    out_ += "\":";
  }

  std::string& out_;
  bool first_ = true;
};

const char* PoolName(mocker::ReplayStage stage) {
  constexpr std::array<const char*, 3> kNames = {"agg", "prefill", "decode"};
  return kNames.at(static_cast<std::size_t>(stage));
}

void AppendRouting(const mocker::ReplayRouting& routing, std::string& out) {
  const bool queued = routing.queued_ms.has_value();
  Members members(out);
  members.Word("pool", PoolName(routing.stage));
  members.Word("outcome", queued ? "queued" : "immediate");
  members.Number("queue_entered_at_ms", routing.queued_ms);
  if (queued) {
    members.Number("released_at_ms", routing.routed_ms);
  } else {
    members.Bare("released_at_ms", "null");
  }
  members.Number("queue_wait_ms", queued ? routing.routed_ms - *routing.queued_ms : 0.0);
  members.Number("logical_worker_id", routing.worker);
  members.Number("scheduler_id", routing.scheduler);
  members.Number("dp_rank", routing.rank);
  members.Number("reported_overlap_tokens", routing.overlap_tokens);
  std::optional<std::uint32_t> selected, best, regret;
  if (const auto& choice = routing.choice) {
    selected = choice->blocks;
    best = choice->best_blocks;
    regret = choice->best_blocks - choice->blocks;
  }
  members.Number("selected_overlap_blocks", selected);
  members.Number("best_available_overlap_blocks", best);
  members.Number("overlap_regret_blocks", regret);
  members.Bare("placement_replica_id", "null");
  members.End();
}

void AppendAdmissions(const mocker::ReplayHistory& history, std::string& out) {
  std::array<std::uint32_t, 3> ordinals{};  // by pool
  std::uint32_t ordinal = 0;
  for (const auto& admission : history.admissions) {
    std::uint32_t& of_pool = ordinals.at(static_cast<std::size_t>(admission.stage));
    out += ordinal == 0 ? "" : ",";
    Members members(out);
    members.Number("admission_ordinal", ordinal++);
    members.Number("pool_admission_ordinal", of_pool);
    members.Word("pool", PoolName(admission.stage));
    members.Number("at_ms", admission.at_ms);
    members.Number("reused_input_tokens", admission.reused_tokens);
    if (of_pool == 0 && admission.host_tokens) {
      members.Number("g1_reused_input_tokens", admission.reused_tokens - *admission.host_tokens);
      members.Number("host_reused_input_tokens", *admission.host_tokens);
    }
    members.Bare("is_readmission", of_pool++ > 0 ? "true" : "false");
    members.End();
  }
}

std::uint32_t Readmissions(const mocker::ReplayHistory& history) {
  std::array<std::uint32_t, 3> admissions{};
  std::uint32_t again = 0;
  for (const auto& admission : history.admissions) {
    again += admissions.at(static_cast<std::size_t>(admission.stage))++ > 0 ? 1U : 0U;
  }
  return again;
}

/// What release 1.6 has beyond 1.3, each member with a comma before it.
void AppendHistory(const mocker::ReplayHistory& history, std::string& out) {
  const auto number = [&out](const char* key, const auto& value) {
    out += ",\"";
    out += key;
    out += "\":";
    AppendNumber(out, value);
  };
  out += ",\"dispatched_at_ms\":null";
  number("terminal_time_ms", history.terminal_time_ms);
  number("requested_output_length", history.requested_output_length);
  if (!history.admissions.empty() && history.admissions.front().host_tokens) {
    const mocker::ReplayAdmission& first = history.admissions.front();
    number("first_admission_g1_reused_input_tokens", first.reused_tokens - *first.host_tokens);
    number("first_admission_host_reused_input_tokens", *first.host_tokens);
  }
  out += ",\"routing_history\":[";
  for (const auto& routing : history.routings) {
    out += &routing == history.routings.data() ? "" : ",";
    AppendRouting(routing, out);
  }
  out += "],\"admission_history\":[";
  AppendAdmissions(history, out);
  out += "]";
  number("admission_count", static_cast<std::uint32_t>(history.admissions.size()));
  number("readmission_count", Readmissions(history));
  out += ",\"pressure_record_ordinals\":[]";
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
  if (record.history) {
    AppendHistory(*record.history, out);
  }
  out += ",\"terminal_status\":\"";
  out += StatusName(record.status);
  out += "\"}\n";
}

}  // namespace understudy::worker
