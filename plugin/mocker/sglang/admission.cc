// The first half of a pass: which prompts, or parts of them, are computed.
#include "plugin/mocker/scheduler/length_accumulator.h"
#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

void SglangScheduler::PromotePrebuilt() {
  while (!prebuilt_.empty() && (config_.running_max == 0 || running_count_ < config_.running_max)) {
    const std::uint32_t index = prebuilt_.front();
    LeaveState(index);
    CountAdmission(index, 0);
    EnterRunning(index);
  }
}

void SglangScheduler::BeginAdmission() {
  parts_.clear();
  cache_hit_tokens_ = cache_total_tokens_ = 0;
}

void SglangScheduler::Admit() {
  BeginAdmission();
  if (waiting_.empty() || !prebuilt_.empty() || !pending_.empty()) {
    return;  // nobody overtakes what was handed over
  }
  Budget budget = NewBudget();
  const std::uint64_t slots = config_.running_max == 0
                                  ? UINT64_MAX
                                  : std::max(config_.running_max, running_count_) - running_count_;
  while (parts_.size() < slots && !waiting_.empty()) {
    const std::uint32_t index = waiting_.front();
    SglangRequest& head = requests_[index];
    head.sequence.MakePages(head.left());
    const bool fresh = !head.admitted && !head.destination;
    if (fresh && !config_.strict_reference && NeverFits(head, Reusable(head))) {
      EndWithout(index, engine::OutputKind::kRejected, {});
      continue;
    }
    if (!AdmitPart(index, budget) || budget.chunk == 0) {
      return;
    }
  }
}

SglangScheduler::Budget SglangScheduler::NewBudget() const {
  double promised = 0.0;
  for (const std::uint32_t index : running_) {
    const std::uint64_t output =
        std::min(requests_[index].left(), config_.sglang.clip_max_new_tokens);
    promised += static_cast<double>(output) * output_ratio_;
  }
  const std::uint64_t available = cache_.available_tokens();
  const std::uint64_t unpromised = available - std::min(available, running_slack_);
  return {static_cast<double>(unpromised) - promised,
          config_.sglang.max_prefill_tokens,
          config_.sglang.chunked_prefill_size};
}

/// With the whole pool and a whole pass to itself it would not be admitted.
bool SglangScheduler::NeverFits(const SglangRequest& request, std::uint64_t cached) const {
  const SglangOptions& limits = config_.sglang;
  const std::uint64_t prompt = RoundUp(request.length - cached);
  const std::uint64_t reserve = std::min(request.left(), limits.clip_max_new_tokens);
  const std::uint64_t chunk =
      std::min(prompt, limits.chunked_prefill_size / page_size_ * page_size_);
  return prompt + reserve >= cache_.total_tokens() || chunk > limits.max_prefill_tokens ||
         (chunk == 0 && prompt > 0);
}

bool SglangScheduler::AdmitPart(std::uint32_t index, Budget& budget) {
  SglangRequest& request = requests_[index];
  Part part{.index = index, .reused = std::max(request.materialized, Reusable(request))};
  const std::uint64_t missing = request.length - part.reused;
  const std::optional<std::uint64_t> chunk = Chunk(missing, budget);
  if (!chunk || (*chunk == 0 && missing > 0)) {
    return false;
  }
  part.tokens = *chunk;
  const std::uint64_t charge = RoundUp(part.tokens);
  const std::uint64_t reserve =
      part.tokens < missing ? 0 : std::min(request.left(), config_.sglang.clip_max_new_tokens);
  if (!HasRoom(request, charge, reserve, budget) || !Materialize(request, part)) {
    return false;
  }
  waiting_.Remove(requests_, index);
  request.status = State::kAdmitted;
  if (part.admission) {
    CountAdmission(index, part.reused);
  }
  output_->progressed = true;
  parts_.push_back(part);
  budget.pool -= static_cast<double>(charge + reserve);
  budget.input -= std::min(budget.input, charge);
  budget.chunk -= charge;
  return true;
}

bool SglangScheduler::HasRoom(const SglangRequest& request,
                              std::uint64_t charge,
                              std::uint64_t reserve,
                              const Budget& budget) const {
  if (charge > budget.chunk) {
    return false;
  }
  if (request.squeezed && running_count_ == 0 && parts_.empty()) {
    return charge < cache_.available_tokens();
  }
  return charge <= budget.input &&
         static_cast<double>(charge) + static_cast<double>(reserve) < budget.pool;
}

/// Complete prompts run; the others cache what they have and wait for their next part, before
/// everybody else.
void SglangScheduler::SortIn() {
  PrefillBatch batch;
  LengthAccumulator prompts(output_->stats.prefill);
  for (const Part& part : parts_) {
    SglangRequest& request = requests_[part.index];
    ++batch.requests;
    batch.prompt_tokens += request.materialized;
    batch.cached_tokens += part.reused;
    cache_hit_tokens_ += part.hit;
    cache_total_tokens_ += part.hit + part.tokens;
    if (part.tokens > 0) {
      output_->prefilled = output_->ran_model = true;
      prompts.Add(request.prompt_length);
      output_->stats.prefill_tokens += part.tokens;
      output_->stats.prefill_kv_tokens += part.reused;
    }
    if (request.materialized == request.length) {
      EnterRunning(part.index);
      continue;
    }
    PublishPages(request, request.materialized / page_size_, output_->events);
    request.status = State::kWaiting;
    waiting_.PushFront(requests_, part.index);
  }
  if (config_.worker_type != WorkerType::kDecode) {
    output_->prefill = ScaledTime(
        config_.perf_model->PrefillMs(batch), config_.speedup_ratio, config_.strict_reference);
  }
}

}  // namespace understudy::mocker
