// What differs between the engines of Dynamo's releases, in one place.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/mocker/mocker_options.h"

namespace understudy::mocker {

/// The rules of one release for one engine type; immutable. Everything else is shared. Source:
/// engine.md and engine-1.6.md, section 10.
struct EngineSemantics {
  /// 1.3: one slot per block, victims by lineage. 1.6: copies, the one unused for longest first.
  bool block_copies = false;
  /// 1.3: a sampled token gets its slot in the same pass, and may push others out for it. 1.6: when
  /// it is computed, one pass later.
  bool slot_when_sampled = true;
  /// 1.6: the pass that computes the rest of a prompt gives its first token without a decode step.
  bool first_token_free = false;
  /// 1.6: decode time follows the tokens of the sequences, not the blocks in use.
  bool decode_time_by_length = false;
  /// 1.6, vLLM: at least one token of a prompt is computed, even if all of it is cached; with
  /// drafts one block more.
  bool recomputes_last_block = false;
  /// 1.6: a re-admitted request finds its generated blocks in the cache as well.
  bool reuses_generated_blocks = false;
  /// 1.3, strictly: a cancelled request is computed to its end and only its output is dropped.
  bool cancel_only_mutes = true;
  /// 1.6: hidden ids of generated tokens follow from the request's id, 1.3: random.
  bool synthetic_tokens = false;
  /// Prompts computed elsewhere may be handed over; 1.3: not to TensorRT-LLM.
  bool takes_destinations = true;
  /// 1.6: events are visible when the pass ends.
  bool events_at_end = false;
  /// 1.6: a destination joins the queue where it arrived, 1.3: at its end.
  bool destination_keeps_its_place = false;
  /// 1.6: the ranks of a worker start a pass together and end it with the slowest of them.
  bool ranks_share_passes = false;
  /// A rank that is late by more than `catch_up_max` is `catch_up_left` late from then on.
  Nanoseconds catch_up_max = std::chrono::milliseconds(100);
  Nanoseconds catch_up_left{0};
  /// SGLang of 1.6: a pass computes prompts or decodes, never both; requests hold whole pages; what
  /// is cached costs nothing. 1.3: mixed passes over a pool of tokens (sglang/mixed_passes.h,
  /// sglang/prefill_first.h).
  bool prefill_first = false;
};

/// `release` 1.3 or 1.6 semantics of `type`.
[[nodiscard]] EngineSemantics SemanticsOf(SemanticsRelease release, EngineType type);

}  // namespace understudy::mocker
