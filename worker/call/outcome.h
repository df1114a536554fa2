// What became of one request of `understudy call`.
#pragma once

#include "understudy/transport/codec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

/// Times are milliseconds since the request was published, on CLOCK_MONOTONIC.
struct CallOutcome {
  enum class End : std::uint8_t {
    kDone,         ///< complete_final and sentinel came, no error
    kCancelled,    ///< we cancelled as asked
    kRefused,      ///< the ack said no, or nobody listens on the subject
    kFailed,       ///< error prologue, error item, finish reason error, broken stream
    kTimedOut,     ///< nothing came within --timeout
    kInterrupted,  ///< Ctrl-C
  };
  std::uint32_t index = 0;  ///< 0 .. count - 1
  std::uint64_t instance_id = 0;
  std::string request_id;
  End end = End::kDone;
  std::string text;  ///< what the worker said, or what was wrong
  std::uint32_t prompt_tokens = 0;
  std::optional<double> ack_ms, connected_ms, prologue_ms;
  std::vector<double> token_ms;  ///< one per output token
  std::optional<double> cancel_ms,
      closed_ms;  ///< when cancel was sent and when the worker closed after it
  std::uint32_t tokens_after_cancel = 0;
  double total_ms = 0;
  std::optional<std::string> finish_reason;
  std::optional<transport::Usage> usage;
};

[[nodiscard]] constexpr const char* NameOf(CallOutcome::End end) {
  switch (end) {
    case CallOutcome::End::kDone:
      return "done";
    case CallOutcome::End::kCancelled:
      return "cancelled";
    case CallOutcome::End::kRefused:
      return "refused";
    case CallOutcome::End::kFailed:
      return "failed";
    case CallOutcome::End::kTimedOut:
      return "timed_out";
    case CallOutcome::End::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

/// Nearest rank; `share` in (0, 1]. `values` need not be sorted; empty gives nullopt.
[[nodiscard]] std::optional<double> Percentile(std::vector<double> values, double share);

struct GapSummary {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, max = 0;
};
/// Times between consecutive tokens of each outcome, all together; nullopt when there is no pair.
[[nodiscard]] std::optional<GapSummary> SummarizeGaps(const std::vector<CallOutcome>& outcomes);

/// 0 all done or cancelled as asked, 1 one was refused, failed or interrupted, 4 one timed out (and
/// none of those).
[[nodiscard]] int ExitCodeOf(const std::vector<CallOutcome>& outcomes);

}  // namespace understudy::worker
