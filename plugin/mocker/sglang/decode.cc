// The second half of a pass: every running request gets its next token, or a burst of them.
#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <algorithm>

namespace understudy::mocker {

namespace {
constexpr const char* kOutgrewPool =
    "Completion signal received before max tokens reached: the request alone exceeds the KV pool";
}  // namespace

void SglangScheduler::Decode() {
  if (config_.collect_stats) {
    NoteDecodeLengths();
  }
  if (running_.empty()) {
    return;
  }
  Demand demand;
  for (const std::uint32_t index : running_) {
    const Demand own = DemandOf(requests_[index]);
    demand.tokens += own.tokens;
    demand.growth += own.growth;
  }
  RetractUntilMet(demand);
  if (!retracted_.empty()) {
    OnRetracted();
  }
  std::optional<std::uint64_t> reserved = ReserveTokens(demand);
  if (!reserved) {
    return;
  }
  AddDecodeTime();
  const bool scarce = *reserved < demand.tokens;  // only one runs then
  for (const std::uint32_t index : running_) {
    *reserved -= EmitBurst(index, scarce ? StepMax(index, *reserved) : requests_[index].left());
  }
  cache_.Return(*reserved);
}

std::uint64_t SglangScheduler::BurstMax(const SglangRequest& request) const {
  const bool drafts = config_.speculative && config_.worker_type != WorkerType::kPrefill;
  const std::uint64_t most = drafts ? config_.speculative->accept_rates.size() + 1 : 1;
  return std::min(most, request.left());
}

SglangScheduler::Demand SglangScheduler::DemandOf(const SglangRequest& request) const {
  const std::uint64_t end = request.length + BurstMax(request);
  return {HeldTokens(end) - HeldTokens(request.length), RoundUp(end) - RoundUp(request.length)};
}

std::uint64_t SglangScheduler::StepMax(std::uint32_t index, std::uint64_t reserved) const {
  const std::uint64_t length = requests_[index].length;
  return HeldTokens(length) - length + reserved;
}

bool SglangScheduler::Meets(const Demand& demand) const {
  const std::uint64_t available = cache_.available_tokens();
  return available >= demand.tokens &&
         available - std::min(available, running_slack_) >= demand.growth;
}

void SglangScheduler::RetractUntilMet(Demand& demand) {
  while (!Meets(demand) && running_.size() > 1) {
    const auto victim = std::min_element(
        running_.begin(), running_.end(), [this](std::uint32_t a, std::uint32_t b) {
          return requests_[a].outputs() < requests_[b].outputs();
        });
    const std::uint32_t index = *victim;
    running_.erase(victim);
    SglangRequest& request = requests_[index];
    const Demand own = DemandOf(request);
    demand.tokens -= own.tokens;
    demand.growth -= own.growth;
    --running_count_;
    running_slack_ -= Slack(request.length);
    // Dynamo 1.3.0 frees pages twice here that were cached when the request was admitted in this
    // very pass, and loses its copies of pages that somebody else has cached meanwhile.
    Release(request, output_->events);
    request.status = State::kWaiting;
    retracted_.push_back(index);
    output_->progressed = true;
  }
}

/// Takes the tokens of this step out of the pool. Less than `demand` only for the last running
/// request in a pool that is full.
std::optional<std::uint64_t> SglangScheduler::ReserveTokens(const Demand& demand) {
  std::uint64_t tokens = demand.tokens;
  cache_.MakeRoom(tokens, output_->events);
  if (cache_.free_tokens() < tokens) {
    if (config_.strict_reference) {
      return std::nullopt;  // and so for ever, unless somebody else frees something
    }
    const std::uint32_t last = running_.front();
    while (StepMax(last, cache_.available_tokens()) == 0 && ReclaimOne(last)) {
    }
    cache_.MakeRoom(tokens, output_->events);
    tokens = std::min(tokens, cache_.free_tokens());
    if (StepMax(last, tokens) == 0) {
      if (!OthersHold()) {
        EndWithout(last, engine::OutputKind::kFailed, kOutgrewPool);
      }
      return std::nullopt;
    }
  }
  cache_.Take(tokens);
  return tokens;
}

void SglangScheduler::AddDecodeTime() {
  std::uint64_t lengths = 0;
  for (const std::uint32_t index : running_) {
    lengths += requests_[index].length;
  }
  const DecodeBatch batch{.requests = running_.size(),
                          .active_tokens = config_.semantics.decode_time_by_length
                                               ? lengths
                                               : std::min(lengths, cache_.total_tokens()),
                          .context_tokens = lengths / running_.size(),
                          .total_tokens = cache_.total_tokens()};
  // On prefill workers too: the original's SGLang core computes tokens there like any other.
  output_->decode = ScaledTime(config_.perf_model->DecodeMs(batch),
                               config_.speedup_ratio * config_.decode_speedup_ratio,
                               config_.strict_reference);
}

/// Returns the tokens of the pool that it took.
std::uint64_t SglangScheduler::EmitBurst(std::uint32_t index, std::uint64_t most) {
  const bool drafts = accepts_ && config_.worker_type != WorkerType::kPrefill;
  const std::uint64_t burst = drafts ? accepts_->Burst(most) : 1;
  const std::uint64_t before = HeldTokens(requests_[index].length);
  for (std::uint64_t i = 0; i < burst; ++i) {
    EmitToken(index);
  }
  return HeldTokens(requests_[index].length) - before;
}

/// A token with a place in the pool.
void SglangScheduler::EmitToken(std::uint32_t index) {
  SglangRequest& request = requests_[index];
  ++request.materialized;
  running_slack_ -= Slack(request.length);
  Emit(request);
  running_slack_ += Slack(request.length);
  if (request.left() == 0) {
    finished_.push_back(index);
  } else {
    PublishPages(request, request.sequence.pages().size(), output_->events);
  }
}

void SglangScheduler::Emit(SglangRequest& request) {
  const OutputTokens::Token token = request.tokens.Next(request.outputs());
  request.sequence.Append(token.hidden);
  ++request.length;
  token_count_.Add(request.token_pass, passes_);
  if (!request.muted) {
    const auto kind =
        request.left() == 0 ? engine::OutputKind::kLastToken : engine::OutputKind::kToken;
    output_->outputs.push_back({request.id, token.visible, kind});
  }
  output_->progressed = output_->ran_model = true;
}

}  // namespace understudy::mocker
