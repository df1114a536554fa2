// States that the original never leaves: nothing moves, and nothing will.
#include "plugin/mocker/sglang/sglang_scheduler.h"

namespace understudy::mocker {

namespace {
constexpr const char* kNoRoomAgain =
    "Completion signal received before max tokens reached: the retracted request exceeds the KV "
    "pool";
}  // namespace

/// Hand-offs hold a part of the pool and will free it, or are about to try again.
bool SglangScheduler::OthersHold() const {
  return held_ + reserved_ > 0;
}

/// Takes back what the last of the waiting requests (of the prebuilt ones, if there is none) has
/// computed; `keep` is spared. False: none holds anything.
bool SglangScheduler::ReclaimOne(std::uint32_t keep) {
  for (std::uint32_t i = waiting_.back(); i != kNoIndex; i = requests_[i].previous) {
    if (i != keep && requests_[i].materialized > 0) {
      Release(requests_[i], output_->events);
      output_->progressed = true;
      return true;
    }
  }
  if (prebuilt_.empty() || prebuilt_.back() == keep) {
    return false;
  }
  const std::uint32_t index = prebuilt_.back();
  LeaveState(index);
  Release(requests_[index], output_->events);
  requests_[index].status = State::kWaiting;
  waiting_.PushFront(requests_, index);
  output_->progressed = true;
  return true;
}

/// Nobody runs, and the head of the queue is not admitted although nobody else keeps anything from
/// it for a while: partly computed prompts block each other, or a retracted request has grown
/// beyond what admission allows.
void SglangScheduler::ResolveDeadEnd() {
  if (output_->progressed || config_.strict_reference || running_count_ > 0 || OthersHold()) {
    return;
  }
  if (!pending_.empty()) {
    // Its next try finds what is taken back here, or what a cancel has freed.
    output_->progressed =
        ReclaimOne(kNoIndex) || requests_[pending_.front()].retry_at != capacity_changes_;
    return;
  }
  if (waiting_.empty() || ReclaimOne(waiting_.front())) {
    return;
  }
  const std::uint32_t index = waiting_.front();
  SglangRequest& head = requests_[index];
  if (head.squeezed || RoundUp(head.length) >= cache_.total_tokens()) {
    EndWithout(index, engine::OutputKind::kFailed, kNoRoomAgain);
    return;
  }
  head.squeezed = true;
  output_->progressed = true;
}

}  // namespace understudy::mocker
