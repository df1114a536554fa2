// The second half of a pass: every request whose tokens are all computed gets one more.
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

void Scheduler::Decode() {
  EndOutputless();
  CollectReady();
  // Measured before the new tokens take blocks.
  const DecodeBatch batch = BatchOfReady();
  bool any = false;
  for (const std::uint32_t index : ready_) {
    if (requests_[index].status == State::kRunning) {  // else pushed out by one before it
      any = EmitToken(index) || any;
    }
  }
  if (any) {
    AddDecodeTime(batch);
  }
}

void Scheduler::EndOutputless() {
  if (outputless_ == 0) {
    return;
  }
  for (const std::uint32_t index : running_) {
    RequestState& request = requests_[index];
    if (request.status == State::kRunning && request.prompt_length == request.length_max &&
        request.computed >= request.length) {
      output_->outputs.push_back({request.id, 0, engine::OutputKind::kDone});
      ReleaseBlocks(request);
      Retire(index);
    }
  }
}

bool Scheduler::IsCharged(const RequestState& request) const {
  return !config_.semantics.first_token_free || config_.worker_type != WorkerType::kAggregated ||
         accepts_ || request.length > request.prompt_length || request.pass != passes_ ||
         request.pass_prompt == 0;
}

DecodeBatch Scheduler::BatchOfReady() const {
  DecodeBatch batch{.requests = 0,
                    .active_tokens = (pool_->active() - pool_->spare()) * config_.block_size,
                    .context_tokens = 0,
                    .total_tokens = pool_->total() * config_.block_size};
  std::uint64_t lengths = 0;
  for (const std::uint32_t index : ready_) {
    const RequestState& request = requests_[index];
    if (IsCharged(request)) {
      ++batch.requests;
      lengths += request.length;
    }
  }
  if (batch.requests > 0) {
    batch.context_tokens = lengths / batch.requests;
  }
  if (config_.semantics.decode_time_by_length) {
    batch.active_tokens = lengths;
  }
  return batch;
}

void Scheduler::AddDecodeTime(const DecodeBatch& batch) {
  if (config_.worker_type != WorkerType::kPrefill && batch.requests > 0) {
    output_->decode = ScaledTime(config_.perf_model->DecodeMs(batch),
                                 config_.speedup_ratio * config_.decode_speedup_ratio,
                                 config_.strict_reference);
  }
}

void Scheduler::CollectReady() {
  ready_.clear();
  for (const std::uint32_t index : running_) {
    const RequestState& request = requests_[index];
    if (request.computed >= request.length && request.length < request.length_max) {
      ready_.push_back(index);
    }
  }
}

bool Scheduler::EmitToken(std::uint32_t index) {
  RequestState& request = requests_[index];
  if (request.sequence.NextOpensBlock()) {
    if (!config_.semantics.slot_when_sampled) {
      request.sequence.OpenBlock();  // gets its slot when the token is computed
    } else if (!OpenBlockFor(index)) {
      return false;
    }
  }
  Emit(request, index);
  return true;
}

bool Scheduler::OutgrewPool() const {
  // Nobody else holds a block, so none will come. Dynamo 1.3.0 preempts and recomputes such a
  // request for ever, and everybody waits behind it.
  return running_count_ == 1 && reserved_ + held_sources_ == 0 && config_.policy->MayPreempt() &&
         !HostHoldsBlocks() && !config_.strict_reference;
}

bool Scheduler::OpenBlockFor(std::uint32_t index) {
  RequestState& request = requests_[index];
  Sequence& sequence = request.sequence;
  if (sequence.CompleteLast()) {
    pool_->Publish(
        sequence.blocks(), request.held - 1, request.held, output_->events, sequence.tokens());
  }
  sequence.OpenBlock();
  while (!pool_->Use(sequence.blocks(), request.held, request.held + 1, 0, output_->events)) {
    if (OutgrewPool()) {
      sequence.DropBlock();
      EndWithout(index, engine::OutputKind::kFailed, kOutgrewPool);
      return false;
    }
    // The victim may be the request itself: its blocks must be all held ones then.
    sequence.DropBlock();
    const std::uint32_t victim = PreemptOne();
    if (victim == index || victim == kNoIndex) {
      return false;
    }
    sequence.OpenBlock();
  }
  ++request.held;
  request.allocated = request.length + 1;
  return true;
}

void Scheduler::Emit(RequestState& request, std::uint32_t index) {
  const OutputTokens::Token token = request.tokens.Next(request.length - request.prompt_length);
  request.sequence.Append(token.hidden);
  ++request.length;
  token_count_.Add(request.token_pass, passes_);
  fruitless_preemptions_ = 0;
  const bool last = request.length >= request.length_max;
  if (!request.muted) {
    const auto kind = last ? engine::OutputKind::kLastToken : engine::OutputKind::kToken;
    output_->outputs.push_back({request.id, token.visible, kind});
  }
  if (last && request.source) {
    HoldSource(index);
  } else if (last) {
    ReleaseBlocks(request);
    Retire(index);
  }
}

}  // namespace understudy::mocker
