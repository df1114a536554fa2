// What one pass of one rank produced.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/types.h"

#include <cstdint>
#include <vector>

namespace understudy::mocker {

using engine::LengthStats;

/// Counts of one pass, in tokens. Source: dynamo-mocker 1.3.0 forward-pass snapshot; golden vectors
/// pass_*.json, `fpm`.
struct PassStats {
  LengthStats
      prefill;  ///< count and full prompt lengths of requests with prompt tokens in the pass
  std::uint64_t prefill_tokens = 0;     ///< all tokens those requests used in the pass
  std::uint64_t prefill_kv_tokens = 0;  ///< of their prompts, what was there before
  LengthStats decode;                   ///< the others, by sequence length
  LengthStats queued_prefill;           ///< waiting after the pass, by prompt length
  LengthStats queued_decode;            ///< preempted and handed over, by sequence length
  std::uint64_t output_tokens = 0;
  std::uint64_t output_requests = 0;  ///< that got at least one of them
};

/// A step of a hand-off that happened at one of its two ends.
struct HandoffNotice {
  enum class Kind : std::uint8_t {
    kSourceHeld,           ///< the prompt is computed, its blocks wait for ReleaseSource
    kDestinationReserved,  ///< there is room for the prompt
  };
  RequestId id{};
  Kind kind = Kind::kSourceHeld;
  /// kSourceHeld: the whole prompt; kDestinationReserved: what of it was not cached there.
  std::uint64_t tokens = 0;
};

/// What a command between passes changed; visible at once.
struct CommandOutput {
  std::vector<engine::KvEvent> events;
  std::vector<HandoffNotice> notices;

  void Clear() {
    events.clear();
    notices.clear();
  }
};

/// What those who share a pass did in it, all together.
struct SharedPass {
  Nanoseconds duration{0};
  bool prefilled = false;  ///< somebody computed prompt tokens
  bool ran_model = false;  ///< somebody computed anything
};

/// Filled by RankScheduler::RunPass; reuse it, so that a steady pass allocates nothing.
struct PassOutput {
  Nanoseconds fence{0};  ///< before it could begin: transfers of blocks it needs
  Nanoseconds prefill{0};
  Nanoseconds decode{0};
  Nanoseconds barrier{0};               ///< until the slowest of those who share the pass has ended
  std::vector<engine::KvEvent> events;  ///< visible when the pass starts
  bool events_at_end = false;           ///< SGLang and 1.6: `events` are visible when it ends
  std::vector<engine::Admission> admissions;
  std::vector<engine::Output>
      outputs;  ///< visible when it ends: tokens, then requests that ended without one
  std::vector<engine::Failure> failures;
  std::vector<HandoffNotice> notices;  ///< visible when it ends
  PassStats stats;                     ///< only with SchedulerConfig::collect_stats
  /// False: nothing changed and nothing will until a request comes or goes.
  bool progressed = false;
  bool prefilled = false;  ///< prompt tokens were computed
  bool ran_model = false;  ///< or anything else

  [[nodiscard]] Nanoseconds duration() const { return fence + prefill + decode + barrier; }
  [[nodiscard]] SharedPass shared() const { return {duration(), prefilled, ran_model}; }
  void Clear();
};

}  // namespace understudy::mocker
