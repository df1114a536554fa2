#include "worker/request_path/admission.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {

namespace {

using mocker::WorkerType;

/// Why a request cannot take part in the hand-off that it names; empty when it can, or names none.
const char* HandoffRefusal(const transport::PreprocessedRequest& request,
                           const AdmissionRules& rules) {
  if (!request.bootstrap_info) {
    return "";
  }
  if (!request.bootstrap_info->handoff_id) {
    return rules.role == WorkerType::kAggregated ? ""
                                                 : "disaggregated mocker requires a handoff ID";
  }
  if (rules.engine_type == mocker::EngineType::kTrtllm) {
    return "mocker handoff does not support TRT-LLM";
  }
  return rules.role == WorkerType::kAggregated
             ? "aggregated mocker request cannot carry handoff metadata"
             : "";
}

/// Puts the planned answer that the request names, if there is one, in place of its budget.
void Plan(const AdmissionRules& rules, Admitted& admitted) {
  const auto key = ReplayKey(admitted.request.annotations);
  if (!key) {
    return;
  }
  if (rules.replay == nullptr) {
    admitted.replay_miss = ReplayMiss::kNoTable;
    return;
  }
  auto planned = rules.replay->Find(*key);
  if (!planned) {
    admitted.replay_miss = ReplayMiss::kUnknownKey;
    return;
  }
  if (rules.role == WorkerType::kPrefill) {
    planned = planned->first(std::min<std::size_t>(planned->size(), 1));
    if (planned->empty()) {
      return;
    }
  }
  admitted.planned_tokens.assign(planned->begin(), planned->end());
  admitted.output_tokens_max = static_cast<std::uint32_t>(planned->size());
}

}  // namespace

std::variant<Admitted, Refusal> Admit(const transport::RequestControl& control,
                                      std::string_view body,
                                      const AdmissionRules& rules) {
  if (control.unknown_codec) {
    return Refusal{
        "unknown payload_codec '" + *control.unknown_codec + "' (allowed: json, msgpack)",
        ErrorType::kDeserialization};
  }
  auto decoded = transport::DecodeRequest(control.codec, body, rules.limits);
  if (!decoded) {
    const bool large = decoded.error().code == Errc::kUnsupported;
    return Refusal{decoded.error().message,
                   ErrorType::kDeserialization,
                   large ? RefusalReason::kTooLarge : RefusalReason::kInvalid};
  }
  Admitted admitted;
  admitted.request = std::move(*decoded);
  const auto& request = admitted.request;
  if (request.dp_rank && *request.dp_rank >= rules.dp_size) {
    return Refusal{"dp_rank " + std::to_string(*request.dp_rank) +
                       " is out of bounds for dp_size " + std::to_string(rules.dp_size),
                   ErrorType::kGenerate};
  }
  admitted.dp_rank = request.dp_rank;
  const bool prefill = rules.role == WorkerType::kPrefill;
  if (!request.max_tokens && !prefill) {
    return Refusal{"max_output_tokens must be specified for mocker", ErrorType::kGenerate};
  }
  admitted.output_tokens_max = prefill ? 1 : *request.max_tokens;
  Plan(rules, admitted);
  if (admitted.output_tokens_max == 0) {
    return Refusal{"live requests must generate at least one output token", ErrorType::kGenerate};
  }
  if (const std::string_view refusal = HandoffRefusal(request, rules); !refusal.empty()) {
    return Refusal{std::string(refusal), ErrorType::kGenerate};
  }
  admitted.hands_over = request.bootstrap_info && request.bootstrap_info->handoff_id;
  return admitted;
}

}  // namespace understudy::worker
