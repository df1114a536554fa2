// Both ends of a hand-off: prompts computed here for others, and elsewhere for us.
#include "plugin/mocker/scheduler/scheduler.h"

namespace understudy::mocker {

namespace {
constexpr const char* kNoDestinations = "destination reservation is not supported for TRT-LLM";
constexpr const char* kBeyondModel = "destination prompt must be shorter than max_model_len";
constexpr const char* kNeverFinishes =
    "TRT-LLM destination request exceeds the to-completion KV pool capacity";
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

Status Scheduler::CheckDestination(const engine::Request& request) const {
  const SchedulingPolicy& policy = *config_.policy;
  if (!config_.semantics.takes_destinations) {
    return Fail(Errc::kUnsupported, kNoDestinations);
  }
  if (config_.model_len_max != 0 && request.prompt.size() >= config_.model_len_max) {
    return Fail(Errc::kOverloaded, kBeyondModel);
  }
  Candidate candidate{.length = request.prompt.size(),
                      .prompt = request.prompt.size(),
                      .output_max = request.output_tokens_max};
  candidate.output_max = policy.OutputLimit(candidate, config_.blocks_total, config_.block_size);
  if (policy.Footprint(candidate, config_.block_size) > config_.blocks_total) {
    return Fail(Errc::kOverloaded, policy.CountsRunningToFinish() ? kNeverFinishes : kBeyondPool);
  }
  return {};
}

Status Scheduler::ReserveDestination(engine::Request request, bool in_pass, CommandOutput& output) {
  if (Status status = CheckDestination(request); !status) {
    return status;
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
  if ((config_.running_max == 0 || running_count_ < config_.running_max) &&
      MakeRoom(request, output)) {
    pending_.Remove(requests_, index);
    request.status = State::kReserved;
    ++reserved_;
  }
}

bool Scheduler::MakeRoom(RequestState& request, CommandOutput& output) {
  request.sequence.MakeBlocks(request.length_max - request.prompt_length);
  auto& blocks = request.sequence.blocks();
  std::uint64_t cached = 0;
  if (config_.policy->CountsRunningToFinish()) {  // must be able to finish, whatever is cached
    if (!Fits(request, {})) {
      return false;
    }
  } else if (config_.prefix_caching) {
    cached = pool_->FindPrefix(blocks).blocks;
  }
  if (!pool_->UsePrivately(blocks, cached, output.events)) {
    return false;
  }
  request.held = static_cast<std::uint32_t>(blocks.size());
  request.allocated = request.prompt_length;
  output.notices.push_back({request.id,
                            HandoffNotice::Kind::kDestinationReserved,
                            (blocks.size() - cached) * config_.block_size});
  return true;
}

bool Scheduler::ActivateDestination(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || requests_[index].status != State::kReserved) {
    return false;
  }
  RequestState& request = requests_[index];
  const std::uint64_t active_before = pool_->active();
  pool_->Publish(
      request.sequence.blocks(), 0, request.held, output.events, request.sequence.tokens());
  request.computed = request.allocated = request.prompt_length;
  request.status = State::kWaiting;
  --reserved_;
  ++prebuilt_;
  if (config_.semantics.destination_keeps_its_place) {
    waiting_.InsertByArrival(requests_, index);
  } else {
    waiting_.PushBack(requests_, index);
  }
  capacity_changes_ += pool_->active() < active_before ? 1U : 0U;
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
