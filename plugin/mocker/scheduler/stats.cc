// Counts of a pass for those who ask for them.
#include "plugin/mocker/scheduler/length_accumulator.h"
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

void Scheduler::FinishStats() {
  PassStats& stats = output_->stats;
  LengthAccumulator prefill(stats.prefill);
  LengthAccumulator decode(stats.decode);
  LengthAccumulator queued_prefill(stats.queued_prefill);
  LengthAccumulator queued_decode(stats.queued_decode);
  for (const RequestState& request : requests_) {  // also those that ended in this pass
    if (request.pass != passes_) {
      continue;
    }
    if (request.pass_prompt > 0) {
      prefill.Add(request.prompt_length);
      stats.prefill_tokens += request.pass_used;
      stats.prefill_kv_tokens += request.pass_before;
    } else {
      decode.Add(request.pass_length);
    }
  }
  const auto add_queued = [&](std::uint32_t index) {
    for (; index != kNoIndex; index = requests_[index].next) {
      const RequestState& request = requests_[index];
      if (request.status == State::kPreempted || request.destination) {
        queued_decode.Add(request.destination ? request.prompt_length : request.length);
      } else {
        queued_prefill.Add(request.prompt_length);
      }
    }
  };
  add_queued(waiting_.front());
  if (host_) {
    add_queued(host_->aside.front());
  }
  for (const RequestState& request : requests_) {
    if (request.status == State::kPending || request.status == State::kReserved) {
      queued_decode.Add(request.prompt_length);
    }
  }
  stats.output_tokens = token_count_.tokens();
  stats.output_requests = token_count_.requests();
}

}  // namespace understudy::mocker
