// The second half of a pass: every request whose tokens are all computed gets one more.
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

namespace {

// What a client sees of a drawn token, and how many kinds. Source: dynamo-llm 1.3.0 mocker.rs.
constexpr std::uint32_t kVisibleTokenFirst = 1000;
constexpr std::uint64_t kVisibleTokenKinds = 1000;

constexpr const char* kOutgrewPool =
    "Completion signal received before max tokens reached: the request alone exceeds the KV pool";

/// SplitMix64.
std::uint64_t Draw(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t value = state;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

}  // namespace

void Scheduler::Decode() {
  CollectReady();
  if (ready_.empty()) {
    return;
  }
  std::uint64_t lengths = 0;
  for (const std::uint32_t index : ready_) {
    lengths += requests_[index].length;
  }
  // Measured before the new tokens take blocks.
  const DecodeBatch batch{.requests = ready_.size(),
                          .active_tokens = pool_.active() * config_.block_size,
                          .context_tokens = lengths / ready_.size(),
                          .total_tokens = pool_.total() * config_.block_size};
  bool any = false;
  for (const std::uint32_t index : ready_) {
    if (requests_[index].status == Status::kRunning) {  // else pushed out by one before it
      any = EmitToken(index) || any;
    }
  }
  if (any && config_.worker_type != WorkerType::kPrefill) {
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
  if (request.sequence.NextOpensBlock() && !OpenBlockFor(index)) {
    return false;
  }
  Emit(request, index);
  return true;
}

bool Scheduler::OpenBlockFor(std::uint32_t index) {
  RequestState& request = requests_[index];
  Sequence& sequence = request.sequence;
  if (sequence.CompleteLast()) {
    pool_.Promote(sequence.blocks(), output_->events);
  }
  sequence.OpenBlock();
  while (!pool_.Use(sequence.blocks(), request.held, request.held + 1, output_->events)) {
    const bool alone = running_count_ == 1;
    if (alone && config_.policy->MayPreempt() && !config_.strict_reference) {
      // Dynamo 1.3.0 preempts and recomputes such a request for ever, and everybody waits behind
      // it.
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
  std::uint32_t visible = 0;
  std::uint32_t hidden = 0;
  if (request.planned.empty()) {
    // The cache sees another id than the client, as in the original: a follow-up prompt does not
    // match generated blocks.
    const std::uint64_t drawn = Draw(request.random);
    hidden = static_cast<std::uint32_t>(drawn);
    visible = kVisibleTokenFirst +
              static_cast<std::uint32_t>(((drawn >> 32U) * kVisibleTokenKinds) >> 32U);
  } else {
    hidden = visible = request.planned[request.length - request.prompt_length];
  }
  request.sequence.Append(hidden);
  ++request.length;
  if (request.token_pass != 0 && request.token_pass + 1 == passes_) {
    ++pass_gaps_;
  }
  request.token_pass = passes_;
  const bool last = request.length >= request.length_max;
  if (!request.muted) {
    const auto kind = last ? engine::OutputKind::kLastToken : engine::OutputKind::kToken;
    output_->outputs.push_back({request.id, visible, kind});
  }
  if (last) {
    ReleaseBlocks(request);
    Retire(index);
  }
}

}  // namespace understudy::mocker
