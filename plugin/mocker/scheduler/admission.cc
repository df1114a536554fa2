// The first half of a pass: which requests compute how many tokens, and the blocks for them.
#include "plugin/mocker/scheduler/scheduler.h"

#include <algorithm>

namespace understudy::mocker {

/// Decoding goes on undisturbed for some passes, unless prompts have to queue for it.
bool Scheduler::DefersPrompts(const PassStart& start) const {
  return start.defers_prompts && !left_waiting_ &&
         std::any_of(running_.begin(), running_.end(), [this](std::uint32_t index) {
           return requests_[index].computed >= requests_[index].prompt_length;
         });
}

void Scheduler::ScheduleRunning() {
  // By position, as the original does: when a preempted request leaves from the front, the next one
  // in line is passed over.
  for (std::size_t i = 0; i < running_.size() && budget_ > 0;) {
    if (requests_[running_[i]].status != State::kRunning) {
      ++i;  // it ended in this very pass
      continue;
    }
    if (defers_prompts_ && requests_[running_[i]].computed < requests_[running_[i]].prompt_length) {
      ++i;
      continue;
    }
    switch (SchedulePart(running_[i], nullptr)) {
      case Scheduled::kYes:
        ++i;
        break;
      case Scheduled::kBlocked:
        return;
      case Scheduled::kGone:
        break;
    }
  }
}

void Scheduler::AdmitWaiting() {
  const std::uint64_t running_max = config_.running_max == 0 ? UINT64_MAX : config_.running_max;
  while (!preempted_any_ && running_count_ < running_max && (!host_ || budget_ > 0)) {
    std::uint32_t index = NextCandidate();
    if (index == kNoIndex) {
      return;
    }
    if (Rejects(requests_[index])) {
      EndWithout(index, engine::OutputKind::kRejected, {});
      continue;
    }
    RequestState& request = requests_[index];
    request.sequence.MakeBlocks(request.length_max - request.prompt_length);
    PrefixCost cost;
    if (!IsPrebuilt(request)) {
      cost = CostOf(request);
      const HostAnswer answer = host_ ? AskHost(index, cost) : HostAnswer::kNothing;
      if (answer == HostAnswer::kAside) {
        SetAside(index);
        continue;
      }
      if (answer == HostAnswer::kNoRoom || !Fits(request, cost)) {
        // Nobody overtakes the head, but for prompts that have their blocks: the head may wait for
        // what they hold, and then both would wait for ever.
        index = config_.strict_reference ? kNoIndex : FirstPrebuilt();
        if (index == kNoIndex) {
          return;
        }
        cost = {};
      }
    }
    if (defers_prompts_ && !IsPrebuilt(requests_[index]) &&
        requests_[index].length - cost.cached > 1) {
      return;
    }
    if (SchedulePart(index, &cost) != Scheduled::kYes || (part_used_ == 0 && budget_ == 0)) {
      return;
    }
  }
}

std::uint32_t Scheduler::NextCandidate() const {
  // While a destination waits for room only prompts that have theirs already may pass.
  if (!pending_.empty() || (host_ && prebuilt_ > 0 && config_.worker_type == WorkerType::kDecode)) {
    return FirstPrebuilt();
  }
  const std::uint32_t awake = host_ ? FirstAwake() : kNoIndex;
  return awake != kNoIndex ? awake : waiting_.front();
}

std::uint32_t Scheduler::FirstPrebuilt() const {
  std::uint32_t index = prebuilt_ == 0 ? kNoIndex : waiting_.front();
  while (index != kNoIndex && !IsPrebuilt(requests_[index])) {
    index = requests_[index].next;
  }
  return index;
}

bool Scheduler::IsPrebuilt(const RequestState& request) {
  return request.destination && request.status == State::kWaiting;
}

bool Scheduler::Rejects(const RequestState& request) const {
  if (config_.model_len_max != 0 && request.prompt_length >= config_.model_len_max) {
    return true;
  }
  return request.status == State::kWaiting && !IsPrebuilt(request) &&
         config_.policy->Footprint(CandidateOf(request, {}), config_.block_size) >
             config_.blocks_total;
}

PoolView Scheduler::ViewOfPool() const {
  PoolView view{pool_->total(), pool_->active(), 0};
  if (!config_.policy->CountsRunningToFinish()) {
    return view;
  }
  const auto add = [&](const RequestState& request) {
    view.running_to_finish += config_.policy->Needed(CandidateOf(request, {}), config_.block_size);
  };
  for (const std::uint32_t index : running_) {
    if (requests_[index].status == State::kRunning) {
      add(requests_[index]);
    }
  }
  if (reserved_ + prebuilt_ > 0) {
    for (const RequestState& request : requests_) {
      if (request.status == State::kReserved || IsPrebuilt(request)) {
        add(request);
      }
    }
  }
  return view;
}

bool Scheduler::Fits(const RequestState& request, const PrefixCost& cost) const {
  const SchedulingPolicy& policy = *config_.policy;
  return policy.Needed(CandidateOf(request, cost), config_.block_size) <=
         policy.Available(ViewOfPool());
}

Scheduler::PrefixCost Scheduler::CostOf(const RequestState& request) const {
  if (!config_.prefix_caching) {
    return {};
  }
  const std::uint64_t block = config_.block_size;
  const KvPool::Prefix prefix = pool_->FindPrefix(request.sequence.blocks());
  const std::uint64_t most = ReusableMax(request);
  PrefixCost cost{std::min(prefix.blocks * block, most), std::min(prefix.active * block, most)};
  if (RecomputesLast(request)) {
    if (config_.speculative && cost.cached >= block) {
      cost.cached -= block;
    }
    cost.active = std::min(cost.active, cost.cached);
  }
  return cost;
}

bool Scheduler::RecomputesLast(const RequestState& request) const {
  return config_.semantics.recomputes_last_block && request.length < request.length_max;
}

/// Tokens that it may find in the cache.
std::uint64_t Scheduler::ReusableMax(const RequestState& request) const {
  if (RecomputesLast(request)) {
    const std::uint64_t block = config_.block_size;
    return request.length == 0 ? 0 : (request.length - 1) / block * block;
  }
  return config_.semantics.reuses_generated_blocks ? request.length : request.prompt_length;
}

Candidate Scheduler::CandidateOf(const RequestState& request, const PrefixCost& cost) const {
  return {.length = request.length,
          .prompt = request.prompt_length,
          .output_max = request.length_max - request.prompt_length,
          .allocated = request.allocated,
          .active_cached = cost.active};
}

Scheduler::Scheduled Scheduler::SchedulePart(std::uint32_t index, const PrefixCost* cost) {
  RequestState& request = requests_[index];
  const bool from_waiting = cost != nullptr;
  std::uint64_t reused = 0;
  if (request.computed == 0) {
    reused = from_waiting ? cost->cached : CostOf(request).cached;
  }
  const std::uint64_t base = request.computed + reused;
  const std::uint64_t before = std::min(base, request.prompt_length);
  const std::uint64_t prompt_left = request.prompt_length - before;
  if (!config_.chunked_prefill && prompt_left > budget_) {
    return Scheduled::kBlocked;
  }
  const std::uint64_t left = request.length - base;
  const std::uint64_t want = std::min(left, budget_);
  if (want == 0 && left > 0) {
    return Scheduled::kBlocked;
  }
  std::uint64_t done = base + want;
  switch (Allocate(index, done, reused)) {
    case Allocated::kYes:
      request.computed = done;
      break;
    case Allocated::kNoBlocks:
      if (base < request.length) {
        return Scheduled::kBlocked;
      }
      done = base;
      break;
    case Allocated::kGone:
      return Scheduled::kGone;
  }
  if (!config_.semantics.slot_when_sampled) {
    FinishPart(request, base, done);
  }
  request.pass = passes_;
  request.pass_used = part_used_ = done - base;
  request.pass_prompt = std::min(done, request.prompt_length) - before;
  request.pass_before = before;
  request.pass_length = request.length;
  if (request.pass_prompt > 0) {
    ++prefill_batch_.requests;
    prefill_batch_.prompt_tokens += before + request.pass_prompt;
    prefill_batch_.cached_tokens += before;
  }
  output_->progressed = true;
  if (from_waiting) {
    EnterRunning(index);
    engine::Admission admission{request.id, static_cast<std::uint32_t>(reused)};
    if (host_) {
      admission.host_tokens = AdmittedFromHost(index, reused);
    }
    output_->admissions.push_back(admission);
  }
  budget_ -= part_used_;
  return Scheduled::kYes;
}

void Scheduler::FinishPart(RequestState& request, std::uint64_t before, std::uint64_t done) {
  if (done == request.length) {
    request.sequence.CompleteLast();
  }
  pool_->Publish(request.sequence.blocks(),
                 before / config_.block_size,
                 done / config_.block_size,
                 output_->events,
                 request.sequence.tokens());
}

Scheduler::Allocated Scheduler::Allocate(std::uint32_t index,
                                         std::uint64_t target,
                                         std::uint64_t reused) {
  RequestState& request = requests_[index];
  if (target <= request.allocated) {
    return Allocated::kYes;
  }
  auto& blocks = request.sequence.blocks();
  if (request.held < blocks.size()) {
    const std::uint64_t wanted = std::min<std::uint64_t>(
        (target + config_.block_size - 1) / config_.block_size, blocks.size());
    const std::uint64_t known = reused / config_.block_size;
    while (wanted > request.held &&
           !pool_->Use(
               blocks, request.held, wanted, known, output_->events, request.sequence.tokens())) {
      if (request.status == State::kRunning && OutgrewPool()) {
        EndWithout(index, engine::OutputKind::kFailed, kOutgrewPool);
        return Allocated::kGone;
      }
      const std::uint32_t victim = PreemptOne();
      if (victim == kNoIndex) {
        return Allocated::kNoBlocks;
      }
      preempted_any_ = true;
      UndoPart(requests_[victim]);
      if (victim == index) {
        return Allocated::kGone;
      }
    }
    request.held = std::max(request.held, static_cast<std::uint32_t>(wanted));
  }
  request.allocated = target;
  return Allocated::kYes;
}

}  // namespace understudy::mocker
