#include "worker/request_path/admission.h"

#include <utility>

namespace understudy::worker {

std::variant<Admitted, Refusal> Admit(const transport::RequestControl& control,
                                      std::string_view body,
                                      std::uint32_t dp_size,
                                      const transport::DecodeLimits& limits) {
  if (control.unknown_codec) {
    return Refusal{
        "unknown payload_codec '" + *control.unknown_codec + "' (allowed: json, msgpack)",
        ErrorType::kDeserialization};
  }
  auto decoded = transport::DecodeRequest(control.codec, body, limits);
  if (!decoded) {
    const bool large = decoded.error().code == Errc::kUnsupported;
    return Refusal{decoded.error().message,
                   ErrorType::kDeserialization,
                   large ? RefusalReason::kTooLarge : RefusalReason::kInvalid};
  }
  Admitted admitted;
  admitted.request = std::move(*decoded);
  const auto& request = admitted.request;
  if (request.dp_rank && *request.dp_rank >= dp_size) {
    return Refusal{"dp_rank " + std::to_string(*request.dp_rank) +
                       " is out of bounds for dp_size " + std::to_string(dp_size),
                   ErrorType::kGenerate};
  }
  admitted.dp_rank = request.dp_rank;
  if (!request.max_tokens) {
    return Refusal{"max_output_tokens must be specified for mocker", ErrorType::kGenerate};
  }
  if (*request.max_tokens == 0) {
    return Refusal{"live requests must generate at least one output token", ErrorType::kGenerate};
  }
  if (request.handoff_id) {
    return Refusal{"aggregated mocker request cannot carry handoff metadata", ErrorType::kGenerate};
  }
  admitted.output_tokens_max = *request.max_tokens;
  return admitted;
}

}  // namespace understudy::worker
