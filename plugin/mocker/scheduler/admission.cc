// The first half of a pass: which requests compute how many tokens, and the blocks for them.
#include "plugin/mocker/scheduler/scheduler.h"

#include <algorithm>

namespace understudy::mocker {

void Scheduler::ScheduleRunning() {
  // By position, as the original does: when a preempted request leaves from the front, the next one
  // in line is passed over.
  for (std::size_t i = 0; i < running_.size() && budget_ > 0;) {
    switch (SchedulePart(running_[i], nullptr)) {
      case Scheduled::kYes:
        ++i;
        break;
      case Scheduled::kBlocked:
        return;
      case Scheduled::kSelfPreempted:
        break;
    }
  }
}

void Scheduler::AdmitWaiting() {
  const std::uint64_t running_max = config_.running_max == 0 ? UINT64_MAX : config_.running_max;
  while (!preempted_any_ && running_count_ < running_max) {
    const std::uint32_t index = NextCandidate();
    if (index == kNoIndex) {
      return;
    }
    RequestState& request = requests_[index];
    if (Rejects(request)) {
      EndWithout(index, engine::OutputKind::kRejected, {});
      continue;
    }
    request.sequence.MakeBlocks(request.length_max - request.prompt_length);
    PrefixCost cost;
    if (!IsPrebuilt(request)) {
      cost = CostOf(request);
      if (!Fits(request, cost)) {
        return;  // nobody overtakes the head
      }
    }
    if (SchedulePart(index, &cost) != Scheduled::kYes || (part_used_ == 0 && budget_ == 0)) {
      return;
    }
  }
}

std::uint32_t Scheduler::NextCandidate() const {
  std::uint32_t index = waiting_.front();
  if (!pending_.empty()) {
    // A destination waits for room: only prompts that have theirs already may pass.
    while (index != kNoIndex && !IsPrebuilt(requests_[index])) {
      index = requests_[index].next;
    }
  }
  return index;
}

bool Scheduler::IsPrebuilt(const RequestState& request) {
  return request.destination && request.status == State::kWaiting;
}

bool Scheduler::Rejects(const RequestState& request) const {
  return request.status == State::kWaiting && !IsPrebuilt(request) &&
         config_.policy->Footprint(CandidateOf(request, {}), config_.block_size) >
             config_.blocks_total;
}

bool Scheduler::Fits(const RequestState& request, const PrefixCost& cost) const {
  const SchedulingPolicy& policy = *config_.policy;
  PoolView view{pool_.total(), pool_.active(), 0};
  if (policy.CountsRunningToFinish()) {
    for (const std::uint32_t index : running_) {
      if (requests_[index].status == State::kRunning) {
        view.running_to_finish +=
            policy.Needed(CandidateOf(requests_[index], {}), config_.block_size);
      }
    }
  }
  return policy.Needed(CandidateOf(request, cost), config_.block_size) <= policy.Available(view);
}

Scheduler::PrefixCost Scheduler::CostOf(const RequestState& request) const {
  PrefixCost cost;
  if (!config_.prefix_caching) {
    return cost;
  }
  std::uint32_t parent = kNoIndex;
  for (const LogicalBlock& block : request.sequence.blocks()) {
    const std::uint32_t slot = block.full ? pool_.Find(parent, block.hash) : kNoIndex;
    if (slot == kNoIndex) {
      break;
    }
    parent = slot;
    cost.cached += config_.block_size;
    cost.active += pool_.IsActive(slot) ? config_.block_size : 0U;
  }
  cost.cached = std::min(cost.cached, request.prompt_length);
  cost.active = std::min(cost.active, request.prompt_length);
  return cost;
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
  switch (Allocate(index, done)) {
    case Allocated::kYes:
      request.computed = done;
      break;
    case Allocated::kNoBlocks:
      if (base < request.length) {
        return Scheduled::kBlocked;
      }
      done = base;
      break;
    case Allocated::kSelfPreempted:
      return Scheduled::kSelfPreempted;
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
    output_->admissions.push_back({request.id, static_cast<std::uint32_t>(reused)});
  }
  budget_ -= part_used_;
  return Scheduled::kYes;
}

Scheduler::Allocated Scheduler::Allocate(std::uint32_t index, std::uint64_t target) {
  RequestState& request = requests_[index];
  if (target <= request.allocated) {
    return Allocated::kYes;
  }
  auto& blocks = request.sequence.blocks();
  if (request.held < blocks.size()) {
    const std::uint64_t wanted = std::min<std::uint64_t>(
        (target + config_.block_size - 1) / config_.block_size, blocks.size());
    while (wanted > request.held && !pool_.Use(blocks, request.held, wanted, output_->events)) {
      const std::uint32_t victim = PreemptOne();
      if (victim == kNoIndex) {
        return Allocated::kNoBlocks;
      }
      preempted_any_ = true;
      UndoPart(requests_[victim]);
      if (victim == index) {
        return Allocated::kSelfPreempted;
      }
    }
    request.held = std::max(request.held, static_cast<std::uint32_t>(wanted));
  }
  request.allocated = target;
  return Allocated::kYes;
}

}  // namespace understudy::mocker
