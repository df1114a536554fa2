// Decoding with draft tokens: a request gets several tokens in a pass.
#include "plugin/mocker/scheduler/scheduler.h"

#include <algorithm>

namespace understudy::mocker {

std::uint64_t Scheduler::BurstMax(const RequestState& request) const {
  const std::uint64_t drafts =
      config_.worker_type == WorkerType::kPrefill ? 0 : config_.speculative->accept_rates.size();
  return std::min(drafts + 1, request.length_max - request.length);
}

bool Scheduler::ReserveGrowth() {
  while (true) {
    CollectReady();
    std::uint64_t growth = 0;
    for (const std::uint32_t index : ready_) {
      const RequestState& request = requests_[index];
      const std::uint64_t most = request.length + BurstMax(request);
      growth += (most + config_.block_size - 1) / config_.block_size -
                (request.length + config_.block_size - 1) / config_.block_size;
    }
    if (ready_.empty() || pool_->ReserveSpare(growth, output_->events)) {
      return !ready_.empty();
    }
    if (OutgrewPool()) {
      EndWithout(ready_.front(), engine::OutputKind::kFailed, kOutgrewPool);
      return false;
    }
    if (PreemptOne() == kNoIndex) {
      return false;
    }
  }
}

void Scheduler::DecodeSpeculative() {
  EndOutputless();
  if (!ReserveGrowth()) {
    return;
  }
  AddDecodeTime(BatchOfReady());
  for (const std::uint32_t index : ready_) {
    EmitBurst(index);
  }
  pool_->ReturnSpare();
}

void Scheduler::EmitBurst(std::uint32_t index) {
  RequestState& request = requests_[index];
  const std::uint64_t left = request.length_max - request.length;
  const std::uint64_t burst =
      config_.worker_type == WorkerType::kPrefill ? 1 : accepts_->Burst(left);
  for (std::uint64_t i = 0; i < burst; ++i) {
    Sequence& sequence = request.sequence;
    if (sequence.NextOpensBlock()) {
      if (sequence.CompleteLast()) {
        pool_->Publish(
            sequence.blocks(), request.held - 1, request.held, output_->events, sequence.tokens());
      }
      sequence.OpenBlock();
      pool_->UseSpare(sequence.blocks().back());
      ++request.held;
    }
    Emit(request, index);
  }
  if (request.status == State::kRunning) {
    request.allocated = request.length;
    request.computed = request.length - 1;  // the latest token is computed in the next pass
  }
}

}  // namespace understudy::mocker
