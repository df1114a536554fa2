// From the bytes of one request to what the engine takes, or to the refusal that the client gets.
// Pure.
#pragma once

#include "understudy/transport/codec.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace understudy::worker {

/// A refusal of one request inside its own stream: the worker stays routable (wire.md 6.4).
struct Refusal {
  std::string text;
  ErrorType error = ErrorType::kInvalidMessage;
  RefusalReason reason = RefusalReason::kInvalid;
};

struct Admitted {
  transport::PreprocessedRequest request;
  std::uint32_t output_tokens_max = 0;
  std::optional<std::uint32_t> dp_rank;  ///< as asked; none = the worker chooses
};

/// Checks in the reference's order: body, rank, budget (mission.md A.8). `body` in the codec that
/// `control` names.
[[nodiscard]] std::variant<Admitted, Refusal> Admit(const transport::RequestControl& control,
                                                    std::string_view body,
                                                    std::uint32_t dp_size,
                                                    const transport::DecodeLimits& limits);

}  // namespace understudy::worker
