// Counts of a pass for those who ask for them.
#include "plugin/mocker/scheduler/length_accumulator.h"
#include "plugin/mocker/sglang/sglang_scheduler.h"

namespace understudy::mocker {

void SglangScheduler::NoteDecodeLengths() {
  LengthAccumulator decode(output_->stats.decode);
  for (const std::uint32_t index : running_) {
    decode.Add(requests_[index].length);
  }
}

void SglangScheduler::FinishStats() {
  PassStats& stats = output_->stats;
  LengthAccumulator queued_prefill(stats.queued_prefill);
  LengthAccumulator queued_decode(stats.queued_decode);
  for (const SglangRequest& request : requests_) {
    switch (request.status) {
      case State::kWaiting:
        if (request.outputs() > 0 || request.destination) {
          queued_decode.Add(request.length);
        } else {
          queued_prefill.Add(request.prompt_length);
        }
        break;
      case State::kPrebuilt:
      case State::kPending:
      case State::kReserved:
        queued_decode.Add(request.length);
        break;
      case State::kAdmitted:
      case State::kRunning:
      case State::kHeld:
      case State::kGone:
        break;
    }
  }
  stats.output_tokens = token_count_.tokens();
  stats.output_requests = token_count_.requests();
}

}  // namespace understudy::mocker
