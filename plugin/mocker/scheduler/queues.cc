// How requests enter, move between the queues and leave.
#include "plugin/mocker/scheduler/scheduler.h"
#include "understudy/base/assert.h"

#include <algorithm>

namespace understudy::mocker {

void WaitingQueue::PushBack(std::vector<RequestState>& requests, std::uint32_t index) {
  requests[index].next = kNoIndex;
  requests[index].previous = last_;
  (last_ == kNoIndex ? first_ : requests[last_].next) = index;
  last_ = index;
  ++size_;
}

void WaitingQueue::PushFront(std::vector<RequestState>& requests, std::uint32_t index) {
  requests[index].previous = kNoIndex;
  requests[index].next = first_;
  (first_ == kNoIndex ? last_ : requests[first_].previous) = index;
  first_ = index;
  ++size_;
}

void WaitingQueue::InsertByArrival(std::vector<RequestState>& requests, std::uint32_t index) {
  std::uint32_t before = last_;
  while (before != kNoIndex && requests[before].arrival > requests[index].arrival) {
    before = requests[before].previous;
  }
  const std::uint32_t after = before == kNoIndex ? first_ : requests[before].next;
  requests[index].previous = before;
  requests[index].next = after;
  (before == kNoIndex ? first_ : requests[before].next) = index;
  (after == kNoIndex ? last_ : requests[after].previous) = index;
  ++size_;
}

void WaitingQueue::Remove(std::vector<RequestState>& requests, std::uint32_t index) {
  const RequestState& request = requests[index];
  (request.previous == kNoIndex ? first_ : requests[request.previous].next) = request.next;
  (request.next == kNoIndex ? last_ : requests[request.next].previous) = request.previous;
  --size_;
}

std::uint32_t Scheduler::NewEntry() {
  if (!unused_.empty()) {
    const std::uint32_t index = unused_.back();
    unused_.pop_back();
    return index;
  }
  requests_.emplace_back();
  return static_cast<std::uint32_t>(requests_.size() - 1);
}

void Scheduler::Submit(engine::Request request) {
  Enqueue(NewRequest(std::move(request)));
}

void Scheduler::Enqueue(std::uint32_t index) {
  requests_[index].status = State::kWaiting;
  waiting_.PushBack(requests_, index);
}

std::uint32_t Scheduler::NewRequest(engine::Request request) {
  const std::uint32_t index = NewEntry();
  RequestState& state = requests_[index];
  state.id = request.id;
  state.length = state.prompt_length = request.prompt.size();
  state.computed = state.allocated = state.pass = state.token_pass = 0;
  state.held = 0;
  state.muted = state.source = state.destination = false;
  Candidate candidate = CandidateOf(state, {});
  candidate.output_max = request.output_tokens_max;
  if (config_.model_len_max > state.prompt_length) {
    candidate.output_max =
        std::min(candidate.output_max, config_.model_len_max - state.prompt_length);
  }
  state.length_max = state.prompt_length + config_.policy->OutputLimit(
                                               candidate, config_.blocks_total, config_.block_size);
  outputless_ += state.length_max == state.prompt_length ? 1U : 0U;
  state.arrival = arrivals_;
  state.tokens.Assign(OutputTokens::Mix(rank_seed_ + arrivals_++),
                      std::move(request.planned_tokens),
                      state.length_max - state.prompt_length,
                      config_.reasoning);
  if (config_.semantics.synthetic_tokens) {
    state.tokens.NameHidden(Value(state.id));
  }
  state.sequence.Assign(std::move(request.prompt),
                        config_.block_size,
                        config_.prefix_caching,
                        config_.kv_event_tokens);
  by_id_.Insert(Value(state.id), index);
  ++unadmitted_;
  if (host_ && index >= host_->requests.size()) {
    host_->requests.resize(std::size_t{index} + 1);
  }
  return index;
}

bool Scheduler::Cancel(RequestId id, CommandOutput& /*output*/) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex) {
    return false;
  }
  const RequestState& request = requests_[index];
  if (config_.strict_reference && config_.semantics.cancel_only_mutes && !request.source &&
      !request.destination) {
    requests_[index].muted = true;  // Dynamo 1.3.0 computes it to the end and drops the output
    return true;
  }
  ReleaseBlocks(requests_[index]);
  Retire(index);
  return true;
}

void Scheduler::EnterRunning(std::uint32_t index) {
  RequestState& request = requests_[index];
  LeaveWaiting(index);
  unadmitted_ -= request.status == State::kWaiting ? 1U : 0U;
  prebuilt_ -= IsPrebuilt(request) ? 1U : 0U;
  request.status = State::kRunning;
  running_.push_back(index);
  ++running_count_;
}

void Scheduler::ReleaseBlocks(RequestState& request) {
  // Last to first: the order in which cached blocks age.
  auto& blocks = request.sequence.blocks();
  while (request.held > 0) {
    pool_->Release(blocks[--request.held]);
  }
  request.allocated = 0;
  request.computed = 0;
  ++capacity_changes_;
}

void Scheduler::Retire(std::uint32_t index) {
  RequestState& request = requests_[index];
  UNDERSTUDY_ASSERT(request.held == 0);
  if (request.status == State::kRunning) {
    --running_count_;
    left_running_ = true;
    retired_.push_back(index);
  } else {
    LeaveQueue(index);
    unused_.push_back(index);
  }
  if (host_) {
    ForgetHost(index);
  }
  stalled_ = false;
  outputless_ -= request.length_max == request.prompt_length ? 1U : 0U;
  by_id_.Erase(Value(request.id), index);
  request.sequence.Clear();
  request.tokens.Clear();
  request.status = State::kGone;
}

void Scheduler::LeaveQueue(std::uint32_t index) {
  switch (requests_[index].status) {
    case State::kWaiting:
      --unadmitted_;
      prebuilt_ -= IsPrebuilt(requests_[index]) ? 1U : 0U;
      [[fallthrough]];
    case State::kPreempted:
      LeaveWaiting(index);
      return;
    case State::kPending:
      --unadmitted_;
      pending_.Remove(requests_, index);
      return;
    case State::kReserved:
      --unadmitted_;
      --reserved_;
      return;
    case State::kHeld:
      --held_sources_;
      return;
    case State::kRunning:
    case State::kGone:
      break;
  }
  UNDERSTUDY_ASSERT(false);
}

std::uint32_t Scheduler::PreemptOne() {
  if (running_count_ == 0 || !config_.policy->MayPreempt()) {
    return kNoIndex;
  }
  const auto lives = [this](std::uint32_t index) {
    return requests_[index].status == State::kRunning;
  };
  std::uint32_t victim = kNoIndex;
  if (config_.preemption == PreemptionMode::kFifo && !stalled_) {
    const auto first = std::find_if(running_.begin(), running_.end(), lives);
    victim = *first;
    running_.erase(first);
  } else {
    const auto last = std::find_if(running_.rbegin(), running_.rend(), lives);
    victim = *last;
    running_.erase(std::next(last).base());
  }
  --running_count_;
  RequestState& request = requests_[victim];
  if (host_) {
    FlushStore(victim);
  }
  ReleaseBlocks(request);
  request.status = State::kPreempted;
  waiting_.PushFront(requests_, victim);
  ++preemptions_;
  // Two requests that take turns in pushing each other out never get a token. When more were pushed
  // out than there are, with no token between, the first to run stays until somebody ends.
  if (++fruitless_preemptions_ > running_count_ + waiting_.size() && !config_.strict_reference) {
    stalled_ = true;
  }
  output_->progressed = true;
  return victim;
}

void Scheduler::UndoPart(RequestState& victim) {
  if (victim.pass != passes_) {
    return;
  }
  victim.pass = 0;
  budget_ += victim.pass_used;
  if (victim.pass_prompt > 0) {
    --prefill_batch_.requests;
    prefill_batch_.prompt_tokens -= victim.pass_before + victim.pass_prompt;
    prefill_batch_.cached_tokens -= victim.pass_before;
  }
}

void Scheduler::EndWithout(std::uint32_t index, engine::OutputKind kind, std::string message) {
  RequestState& request = requests_[index];
  if (!request.muted) {
    endings_.push_back({request.id, 0, kind});
  }
  if (kind == engine::OutputKind::kFailed && !request.muted) {
    output_->failures.push_back({request.id, std::move(message)});
  }
  output_->progressed = true;
  ReleaseBlocks(request);
  Retire(index);
}

void Scheduler::CompactRunning() {
  if (!left_running_) {
    return;
  }
  left_running_ = false;
  std::erase_if(running_,
                [this](std::uint32_t index) { return requests_[index].status != State::kRunning; });
  unused_.insert(unused_.end(), retired_.begin(), retired_.end());
  retired_.clear();
}

}  // namespace understudy::mocker
