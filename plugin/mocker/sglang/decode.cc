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
  std::uint64_t reserved = ReserveTokens(demand);
  if (reserved == 0) {
    return;
  }
  AddDecodeTime();
  const bool scarce = reserved < demand.tokens;  // only one runs then
  for (const std::uint32_t index : running_) {
    reserved -= EmitBurst(index, scarce ? reserved : requests_[index].left());
  }
  cache_.Return(reserved);
}

std::uint64_t SglangScheduler::BurstMax(const SglangRequest& request) const {
  const bool drafts = config_.speculative && config_.worker_type != WorkerType::kPrefill;
  const std::uint64_t most = drafts ? config_.speculative->accept_rates.size() + 1 : 1;
  return std::min(most, request.left());
}

SglangScheduler::Demand SglangScheduler::DemandOf(const SglangRequest& request) const {
  const std::uint64_t burst = BurstMax(request);
  const std::uint64_t slack = Slack(request);
  return {burst, burst <= slack ? 0 : RoundUp(burst - slack)};
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
    running_slack_ -= Slack(request);
    // Dynamo 1.3.0 frees pages twice here that were cached when the request was admitted in this
    // very pass, and loses its copies of pages that somebody else has cached meanwhile.
    Release(request, output_->events);
    request.status = State::kWaiting;
    retracted_.push_back(index);
    output_->progressed = true;
  }
}

/// Takes the tokens of this step out of the pool. Less than `demand` only for the last running
/// request in a pool that is full; 0: no step.
std::uint64_t SglangScheduler::ReserveTokens(const Demand& demand) {
  std::uint64_t tokens = demand.tokens;
  cache_.MakeRoom(tokens, output_->events);
  if (cache_.free_tokens() < tokens) {
    if (config_.strict_reference) {
      return 0;  // and so for ever, unless somebody else frees something
    }
    const std::uint32_t last = running_.front();
    while (cache_.available_tokens() == 0 && ReclaimOne(last)) {
    }
    cache_.MakeRoom(tokens, output_->events);
    tokens = std::min(tokens, cache_.free_tokens());
    if (tokens == 0 && !OthersHold()) {
      EndWithout(last, engine::OutputKind::kFailed, kOutgrewPool);
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
                          .active_tokens = std::min(lengths, cache_.total_tokens()),
                          .context_tokens = lengths / running_.size(),
                          .total_tokens = cache_.total_tokens()};
  // On prefill workers too: the original's SGLang core computes its first token like any other.
  output_->decode = ScaledTime(config_.perf_model->DecodeMs(batch),
                               config_.speedup_ratio * config_.decode_speedup_ratio,
                               config_.strict_reference);
}

std::uint64_t SglangScheduler::EmitBurst(std::uint32_t index, std::uint64_t most) {
  SglangRequest& request = requests_[index];
  const bool drafts = accepts_ && config_.worker_type != WorkerType::kPrefill;
  const std::uint64_t burst = drafts ? accepts_->Burst(most) : 1;
  for (std::uint64_t i = 0; i < burst; ++i) {
    Emit(request);
    if (request.left() == 0) {
      finished_.push_back(index);
    } else {
      PublishPages(request, request.sequence.pages().size(), output_->events);
    }
  }
  return burst;
}

void SglangScheduler::Emit(SglangRequest& request) {
  const OutputTokens::Token token = request.tokens.Next(request.outputs());
  running_slack_ += request.sequence.tail_size() == 0 ? page_size_ - 1 : std::uint64_t{0} - 1;
  request.sequence.Append(token.hidden);
  ++request.length;
  ++request.materialized;
  token_count_.Add(request.token_pass, passes_);
  if (!request.muted) {
    const auto kind =
        request.left() == 0 ? engine::OutputKind::kLastToken : engine::OutputKind::kToken;
    output_->outputs.push_back({request.id, token.visible, kind});
  }
  output_->progressed = true;
}

}  // namespace understudy::mocker
