// Both ends of a hand-off: prompts computed here for others, and elsewhere for us.
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

namespace {
constexpr const char* kNoDestinations = "destination reservation is not supported for TRT-LLM";
constexpr const char* kBeyondPool = "destination prompt exceeds the KV pool capacity";
}  // namespace

std::uint32_t Scheduler::IndexOf(RequestId id) const {
  return by_id_.Find(Value(id), [&](std::uint32_t i) { return requests_[i].id == id; });
}

void Scheduler::SubmitSource(engine::Request request) {
  const std::uint32_t index = NewRequest(std::move(request));
  requests_[index].source = true;
  Enqueue(index);
}

void Scheduler::HoldSource(std::uint32_t index) {
  RequestState& request = requests_[index];
  request.status = State::kHeld;
  --running_count_;
  left_running_ = true;
  ++held_sources_;
  ++capacity_changes_;
  output_->notices.push_back({request.id, HandoffNotice::Kind::kSourceHeld, request.prompt_length});
}

bool Scheduler::ReleaseSource(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || requests_[index].status != State::kHeld) {
    return false;
  }
  ReleaseBlocks(requests_[index]);
  Retire(index);
  RetryDestination(output);
  return true;
}

Status Scheduler::ReserveDestination(engine::Request request, bool in_pass, CommandOutput& output) {
  if (!config_.policy->TakesDestinations()) {
    return Fail(Errc::kUnsupported, kNoDestinations);
  }
  if ((request.prompt.size() + config_.block_size - 1) / config_.block_size >
      config_.blocks_total) {
    return Fail(Errc::kOverloaded, kBeyondPool);
  }
  const std::uint32_t index = NewRequest(std::move(request));
  requests_[index].status = State::kPending;
  requests_[index].destination = true;
  requests_[index].retry_at = 0;
  pending_.PushBack(requests_, index);
  if (!in_pass) {
    RetryDestination(output);
  }
  return {};
}

void Scheduler::RetryDestination(CommandOutput& output) {
  if (pending_.empty()) {
    return;
  }
  const std::uint32_t index = pending_.front();
  RequestState& request = requests_[index];
  if (request.retry_at == capacity_changes_) {
    return;  // it was refused, and nothing has been freed since
  }
  request.retry_at = capacity_changes_;
  if (config_.running_max != 0 && running_count_ >= config_.running_max) {
    return;
  }
  request.sequence.MakeBlocks(request.length_max - request.prompt_length);
  auto& blocks = request.sequence.blocks();
  const std::uint64_t cached = CostOf(request).cached / config_.block_size;
  if (!pool_.UsePrivately(blocks, output.events)) {
    return;
  }
  pending_.Remove(requests_, index);
  request.status = State::kReserved;
  request.held = static_cast<std::uint32_t>(blocks.size());
  ++reserved_;
  output.notices.push_back({request.id,
                            HandoffNotice::Kind::kDestinationReserved,
                            (blocks.size() - cached) * config_.block_size});
}

bool Scheduler::ActivateDestination(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || requests_[index].status != State::kReserved) {
    return false;
  }
  RequestState& request = requests_[index];
  const std::uint64_t active_before = pool_.active();
  pool_.Publish(request.sequence.blocks(), output.events);
  request.computed = request.allocated = request.prompt_length;
  request.status = State::kWaiting;
  --reserved_;
  waiting_.PushBack(requests_, index);
  capacity_changes_ += pool_.active() < active_before ? 1U : 0U;
  RetryDestination(output);
  return true;
}

bool Scheduler::CancelDestination(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || !requests_[index].destination) {
    return false;
  }
  ReleaseBlocks(requests_[index]);
  Retire(index);
  RetryDestination(output);
  return true;
}

}  // namespace understudy::mocker
