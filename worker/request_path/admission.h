// From the bytes of one request to what the engine takes, or to the refusal that the client gets.
// Pure.
#pragma once

#include "understudy/mocker/mocker_options.h"
#include "understudy/transport/codec.h"
#include "worker/metrics/metrics.h"
#include "worker/request_path/replay_table.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace understudy::worker {

/// A refusal of one request inside its own stream: the worker stays routable (wire.md 6.4).
struct Refusal {
  std::string text;
  ErrorType error = ErrorType::kInvalidMessage;
  RefusalReason reason = RefusalReason::kInvalid;
};

/// A request named a planned answer that is not there; it is answered as if it had not.
enum class ReplayMiss : std::uint8_t { kNone, kNoTable, kUnknownKey };

struct Admitted {
  transport::PreprocessedRequest request;
  std::uint32_t output_tokens_max = 0;
  std::optional<std::uint32_t> dp_rank;       ///< as asked; none = the worker chooses
  bool hands_over = false;                    ///< its bootstrap_info names a hand-off
  std::vector<std::uint32_t> planned_tokens;  ///< empty, or output_tokens_max of them
  ReplayMiss replay_miss = ReplayMiss::kNone;
};

/// What a worker takes.
struct AdmissionRules {
  std::uint32_t dp_size = 1;
  transport::DecodeLimits limits{};
  /// Prefill workers answer with one token, whatever the request says; aggregated ones take part
  /// in no hand-off.
  mocker::WorkerType role = mocker::WorkerType::kAggregated;
  mocker::EngineType engine_type = mocker::EngineType::kVllm;
  const ReplayTable* replay = nullptr;  ///< null: none; outlives the calls
};

/// Checks in the reference's order: body, rank, budget, planned answer, hand-off (mission.md A.8).
/// A planned answer replaces the budget both ways; a prefill worker says its first token (there the
/// reference 1.3.0 ignores it, 1.6.1 does so). `body` in the codec that `control` names.
[[nodiscard]] std::variant<Admitted, Refusal> Admit(const transport::RequestControl& control,
                                                    std::string_view body,
                                                    const AdmissionRules& rules);

}  // namespace understudy::worker
