// One request inside an SGLang-style scheduler.
#pragma once

#include "plugin/mocker/scheduler/output_tokens.h"
#include "plugin/mocker/sglang/page_sequence.h"
#include "plugin/mocker/sglang/radix_tree.h"
#include "understudy/base/ids.h"

#include <cstdint>

namespace understudy::mocker {

/// Counters are 64 bits wide because a prompt and an output limit of 32 bits each may add up.
/// It holds `materialized` tokens of the pool: the first `tree_pages` pages by a lock in the tree,
/// the rest itself (and its copies of pages that the tree has too).
struct SglangRequest {
  enum class Status : std::uint8_t {
    kWaiting,   ///< in the queue: new, partly computed, or retracted
    kAdmitted,  ///< got a part in the running pass, not sorted in yet
    kRunning,
    kPrebuilt,  ///< a destination whose prompt has arrived, waits for a slot
    kHeld,      ///< a source that has its last token; what it holds waits for ReleaseSource
    kPending,   ///< a destination that waits for room
    kReserved,  ///< a destination that has room and waits for its prompt
    kGone,      ///< over; the entry is reused as soon as no list of a pass mentions it
  };

  RequestId id{};
  std::uint64_t length = 0;  ///< prompt and outputs so far, tokens
  std::uint64_t prompt_length = 0;
  std::uint64_t length_max = 0;    ///< where it ends
  std::uint64_t materialized = 0;  ///< tokens that have KV entries; whole pages while it waits
  std::uint64_t reserved = 0;      ///< kReserved: tokens set aside, whole pages
  std::uint64_t token_pass = 0;    ///< number of the pass of its latest token; 0 = none
  std::uint64_t retry_at = 0;      ///< kPending: changes of capacity when it was last refused

  std::uint32_t node = kRootNode;      ///< of the tree, locked
  std::uint32_t tree_pages = 0;        ///< pages up to its end
  std::uint32_t cached_pages = 0;      ///< pages it has put into the tree itself
  std::uint32_t registered_pages = 0;  ///< pages that routers may know of
  std::uint32_t next = kNoIndex;       ///< in its queue
  std::uint32_t previous = kNoIndex;

  Status status = Status::kWaiting;
  bool admitted = false;     ///< at least once
  bool muted = false;        ///< cancelled, but computed to its end: strict reference
  bool source = false;       ///< its pages stay when it has its last token
  bool destination = false;  ///< its prompt was computed elsewhere
  /// Has tokens already but will never pass the test for admission again: it goes alone, without
  /// room set aside for the rest of its output.
  bool squeezed = false;

  PageSequence sequence;
  OutputTokens tokens;

  [[nodiscard]] std::uint64_t outputs() const { return length - prompt_length; }
  [[nodiscard]] std::uint64_t left() const { return length_max - length; }
};

}  // namespace understudy::mocker
