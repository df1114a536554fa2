#include "plugin/mocker/policy/semantics.h"

namespace understudy::mocker {

EngineSemantics SemanticsOf(SemanticsRelease release, EngineType type) {
  EngineSemantics semantics;
  if (release == SemanticsRelease::k13) {
    semantics.events_at_end = type == EngineType::kSglang;
    semantics.takes_destinations = type != EngineType::kTrtllm;
    return semantics;
  }
  semantics.block_copies = true;
  semantics.slot_when_sampled = false;
  semantics.first_token_free = true;
  semantics.decode_time_by_length = true;
  semantics.recomputes_last_block = type == EngineType::kVllm;
  semantics.reuses_generated_blocks = true;
  semantics.cancel_only_mutes = false;
  semantics.synthetic_tokens = true;
  semantics.events_at_end = true;
  semantics.destination_keeps_its_place = true;
  semantics.ranks_share_passes = true;
  semantics.catch_up_max = semantics.catch_up_left = std::chrono::milliseconds(5);
  semantics.prefill_first = true;
  return semantics;
}

}  // namespace understudy::mocker
