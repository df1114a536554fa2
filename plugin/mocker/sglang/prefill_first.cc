#include "plugin/mocker/sglang/prefill_first.h"

#include <algorithm>
#include <span>

namespace understudy::mocker {

namespace {
/// Steps for which a retraction wants room for each of those that stay.
constexpr double kRetractSteps = 20.0;
}  // namespace

void PrefillFirst::Compute() {
  RejectTooLong();
  PromotePrebuilt();
  if (cache_.matches()) {
    policy_->Order(waiting_, requests_, cache_);
  }
  const bool deferred = prompts_in_ > 0;
  if (deferred) {
    BeginAdmission();
    output_->progressed = true;  // one pass less to wait
  } else {
    Admit();
  }
  const std::size_t older = running_.size();
  SortIn();
  waits_for_prompts_ = false;
  if (!parts_.empty()) {
    EndOutputless(older);
    EmitFirstTokens(older);
    return;
  }
  EndOutputless(0);
  waits_for_prompts_ = deferred && running_.empty();
  Decode();
}

void PrefillFirst::RejectTooLong() {
  if (config_.model_len_max == 0) {
    return;
  }
  for (std::uint32_t index = waiting_.front(); index != kNoIndex;) {
    const std::uint32_t next = requests_[index].next;
    if (requests_[index].prompt_length >= config_.model_len_max) {
      EndWithout(index, engine::OutputKind::kRejected, {});
    }
    index = next;
  }
}

/// Of the running requests from number `from` on.
void PrefillFirst::EndOutputless(std::size_t from) {
  const auto first = running_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end = std::stable_partition(
      first, running_.end(), [this](std::uint32_t i) { return requests_[i].left() > 0; });
  for (auto index = end; index != running_.end(); ++index) {
    output_->outputs.push_back({requests_[*index].id, 0, engine::OutputKind::kDone});
    output_->progressed = true;
    finished_.push_back(*index);
  }
  running_.erase(end, running_.end());
}

/// The pass that computed these prompts gives their first tokens, in no time.
void PrefillFirst::EmitFirstTokens(std::size_t from) {
  std::uint64_t growth = 0;
  for (std::size_t i = from; i < running_.size(); ++i) {
    SglangRequest& request = requests_[running_[i]];
    if (request.left() == 1) {
      Emit(request);  // nobody will read what it would store
      finished_.push_back(running_[i]);
    } else {
      growth += HeldTokens(request.length + 1) - HeldTokens(request.length);
    }
  }
  cache_.MakeRoom(growth, output_->events);
  if (cache_.free_tokens() < growth) {
    return;  // with the next step, which can retract
  }
  cache_.Take(growth);
  for (std::size_t i = from; i < running_.size(); ++i) {
    if (requests_[running_[i]].left() > 0) {
      EmitToken(running_[i]);
    }
  }
}

std::uint64_t PrefillFirst::Reusable(SglangRequest& request) const {
  if (request.materialized > 0 || !cache_.matches() || request.length == 0) {
    return 0;
  }
  // At least one token is computed, if one is to follow.
  const std::uint64_t most =
      request.left() + request.outputs() == 0 ? request.length : request.length - 1;
  return cache_.Peek(std::span(request.sequence.pages()).first(most / page_size_)) * page_size_;
}

std::optional<std::uint64_t> PrefillFirst::Chunk(std::uint64_t missing,
                                                 const Budget& budget) const {
  return RoundUp(missing) <= budget.chunk
             ? missing
             : std::min(budget.chunk / page_size_ * page_size_, missing);
}

bool PrefillFirst::Materialize(SglangRequest& request, Part& part) {
  const bool begins = request.materialized == 0;
  const std::uint64_t end = part.reused + part.tokens;
  const auto pages = std::span(request.sequence.pages()).first(end / page_size_);
  RadixCache::Match match;
  if (begins) {
    match = cache_.MatchAndLock(pages.first(part.reused / page_size_));
  }
  const std::uint64_t needed =
      RoundUp(end) - (begins ? part.reused : RoundUp(request.materialized));
  if (needed > cache_.available_tokens()) {
    if (begins) {
      cache_.Unlock(match.node);
    }
    return false;
  }
  cache_.MakeRoom(needed, output_->events);
  cache_.Take(needed);
  if (begins) {
    request.node = match.node;
    request.tree_pages = request.registered_pages = static_cast<std::uint32_t>(match.pages);
  }
  part.hit = begins ? part.reused : 0;
  part.admission = begins;
  cache_.Register(pages, request.registered_pages, output_->events, request.sequence.tokens());
  request.registered_pages = static_cast<std::uint32_t>(pages.size());
  request.materialized = end;
  return true;
}

void PrefillFirst::OnRetracted() {
  double decoded = 0.0;
  double most = 0.0;
  for (const std::uint32_t index : running_) {
    decoded += static_cast<double>(requests_[index].outputs());
    most += static_cast<double>(requests_[index].length_max - requests_[index].prompt_length);
  }
  ratio_estimate_ = std::min(
      1.0, (decoded + kRetractSteps * static_cast<double>(running_.size())) / (most + 1.0));
}

void PrefillFirst::Requeue() {
  if (!retracted_.empty()) {
    for (const std::uint32_t index : retracted_) {
      waiting_.PushBack(requests_, index);
    }
    retracted_.clear();
    output_ratio_ = ratio_estimate_;
  } else if (parts_.empty() && !waits_for_prompts_) {
    output_ratio_ =
        std::max(last_ratio_, output_ratio_ - (first_ratio_ - last_ratio_) / kRatioPasses);
  }
}

void PrefillFirst::SettlePass(const SharedPass& pass) {
  SglangScheduler::SettlePass(pass);
  if (waits_for_prompts_ && !pass.ran_model) {
    output_ratio_ = first_ratio_;
  }
  prompts_in_ = pass.prefilled ? config_.prefill_decode_interval : std::max(prompts_in_, 1U) - 1;
}

}  // namespace understudy::mocker
