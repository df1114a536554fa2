// One request inside a scheduler.
#pragma once

#include "plugin/mocker/kv_cache/sequence.h"
#include "plugin/mocker/scheduler/output_tokens.h"
#include "understudy/base/ids.h"

#include <cstdint>

namespace understudy::mocker {

/// Counters are 64 bits wide because a prompt and an output limit of 32 bits each may add up.
struct RequestState {
  enum class Status : std::uint8_t {
    kWaiting,    ///< in the queue, never preempted
    kPreempted,  ///< in the queue, computes everything again
    kRunning,
    kHeld,      ///< a source that has its last token; its blocks wait for ReleaseSource
    kPending,   ///< a destination that waits for room
    kReserved,  ///< a destination that has room and waits for its prompt
    kGone,      ///< over; the entry is reused as soon as no list of a pass mentions it
  };

  RequestId id{};
  std::uint64_t arrival = 0;    ///< its number among the rank's requests
  std::uint64_t length = 0;     ///< prompt and outputs so far, tokens
  std::uint64_t computed = 0;   ///< of these, what has KV entries
  std::uint64_t allocated = 0;  ///< tokens for which it holds blocks (blocks: `held`)
  std::uint64_t prompt_length = 0;
  std::uint64_t length_max = 0;  ///< where it ends

  // The part of the running pass, for undoing it when the request is preempted in the same pass.
  std::uint64_t pass = 0;  ///< number of the pass in which the four below were set; 0 = none
  std::uint64_t pass_used = 0;
  std::uint64_t pass_prompt = 0;
  std::uint64_t pass_before = 0;
  std::uint64_t pass_length = 0;

  std::uint64_t token_pass = 0;  ///< number of the pass of its latest token; 0 = none

  Status status = Status::kWaiting;
  bool muted = false;             ///< cancelled, but computed to its end: strict reference
  bool source = false;            ///< its blocks stay when it has its last token
  bool destination = false;       ///< its prompt was computed elsewhere
  std::uint64_t retry_at = 0;     ///< kPending: changes of capacity when it was last refused
  std::uint32_t held = 0;         ///< blocks with a slot: the first `held` of the sequence
  std::uint32_t next = kNoIndex;  ///< in the queue of waiting or of pending requests
  std::uint32_t previous = kNoIndex;
  Sequence sequence;
  OutputTokens tokens;
};

}  // namespace understudy::mocker
