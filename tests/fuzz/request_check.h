// Properties of DecodeRequest, the same for both codecs.
#pragma once

#include "tests/fuzz/fuzz.h"
#include "understudy/transport/codec.h"

namespace understudy::fuzz {

inline void CheckRequest(transport::PayloadCodec codec, std::string_view body) {
  transport::DecodeLimits limits;
  limits.prompt_tokens_max = 200;
  limits.nesting_max = 12;
  const auto request = transport::DecodeRequest(codec, body, limits);
  if (!request) {
    UNDERSTUDY_ASSERT(!request.error().message.empty());
    return;
  }
  UNDERSTUDY_ASSERT(request->token_ids.size() <= limits.prompt_tokens_max);
  const auto again = transport::DecodeRequest(
      codec, transport::EncodeRequest(codec, *request), transport::DecodeLimits{});
  UNDERSTUDY_ASSERT(again.has_value());
  UNDERSTUDY_ASSERT(again->model == request->model && again->token_ids == request->token_ids);
  UNDERSTUDY_ASSERT(again->max_tokens == request->max_tokens &&
                    again->min_tokens == request->min_tokens);
  UNDERSTUDY_ASSERT(again->ignore_eos == request->ignore_eos && again->dp_rank == request->dp_rank);
  UNDERSTUDY_ASSERT(again->annotations == request->annotations);
  UNDERSTUDY_ASSERT(again->backend_instance_id == request->backend_instance_id);
  UNDERSTUDY_ASSERT(again->bootstrap_info == request->bootstrap_info);
  UNDERSTUDY_ASSERT(again->health_check == request->health_check);
}

}  // namespace understudy::fuzz
