// How requests enter, move between the queues and leave.
#include "plugin/mocker/sglang/sglang_scheduler.h"
#include "understudy/base/assert.h"

#include <algorithm>
#include <utility>

namespace understudy::mocker {

std::uint64_t SglangScheduler::RoundUp(std::uint64_t tokens) const {
  return (tokens + page_size_ - 1) / page_size_ * page_size_;
}

std::uint64_t SglangScheduler::HeldTokens(std::uint64_t tokens) const {
  return (tokens + grain_ - 1) / grain_ * grain_;
}

std::uint32_t SglangScheduler::NewRequest(engine::Request request) {
  std::uint32_t index = static_cast<std::uint32_t>(requests_.size());
  if (unused_.empty()) {
    requests_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  SglangRequest& state = requests_[index];
  // The buffers of the entry's last request are kept.
  SglangRequest fresh;
  fresh.id = request.id;
  fresh.length = fresh.prompt_length = request.prompt.size();
  std::uint64_t output_max = request.output_tokens_max;
  if (config_.model_len_max != 0) {
    output_max =
        std::min(output_max, config_.model_len_max - std::min(config_.model_len_max, fresh.length));
  }
  fresh.length_max = fresh.length + output_max;
  fresh.sequence = std::move(state.sequence);
  fresh.sequence.Assign(std::move(request.prompt), config_.block_size, config_.kv_event_tokens);
  fresh.tokens.Assign(OutputTokens::Mix(rank_seed_ + arrivals_++),
                      std::move(request.planned_tokens),
                      output_max,
                      config_.reasoning);
  if (config_.semantics.synthetic_tokens) {
    fresh.tokens.NameHidden(Value(fresh.id));
  }
  state = std::move(fresh);
  by_id_.Insert(Value(state.id), index);
  ++unadmitted_;
  return index;
}

std::uint32_t SglangScheduler::IndexOf(RequestId id) const {
  return by_id_.Find(Value(id), [&](std::uint32_t i) { return requests_[i].id == id; });
}

void SglangScheduler::Submit(engine::Request request) {
  waiting_.PushBack(requests_, NewRequest(std::move(request)));
}

bool SglangScheduler::Cancel(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex) {
    return false;
  }
  SglangRequest& request = requests_[index];
  if (config_.strict_reference && config_.semantics.cancel_only_mutes && !request.source &&
      !request.destination) {
    request.muted = true;  // Dynamo 1.3.0 computes it to the end and drops the output
    return true;
  }
  if (request.status == State::kHeld) {
    CacheAndRelease(request, output.events);
  } else {
    Release(request, output.events);
  }
  Retire(index);
  return true;
}

void SglangScheduler::CountAdmission(std::uint32_t index, std::uint64_t reused) {
  SglangRequest& request = requests_[index];
  unadmitted_ -= request.admitted ? 0U : 1U;
  request.admitted = true;
  output_->admissions.push_back({request.id, static_cast<std::uint32_t>(reused)});
  output_->progressed = true;
}

void SglangScheduler::EnterRunning(std::uint32_t index) {
  requests_[index].status = State::kRunning;
  running_.push_back(index);
  ++running_count_;
  running_slack_ += Slack(requests_[index].length);
}

void SglangScheduler::LeaveState(std::uint32_t index) {
  const SglangRequest& request = requests_[index];
  switch (request.status) {
    case State::kWaiting:
      waiting_.Remove(requests_, index);
      return;
    case State::kRunning:
      --running_count_;
      running_slack_ -= Slack(request.length);
      left_running_ = true;
      return;
    case State::kPrebuilt:
      prebuilt_.Remove(requests_, index);
      prebuilt_slack_ -= Slack(request.length);
      return;
    case State::kPending:
      pending_.Remove(requests_, index);
      ++capacity_changes_;  // for the one behind it
      return;
    case State::kReserved:
      --reserved_;
      return;
    case State::kHeld:
      --held_;
      return;
    case State::kAdmitted:
    case State::kGone:
      break;
  }
  UNDERSTUDY_ASSERT(false);
}

void SglangScheduler::Retire(std::uint32_t index) {
  SglangRequest& request = requests_[index];
  UNDERSTUDY_ASSERT(request.materialized == 0 && request.reserved == 0);
  const bool ran = request.status == State::kRunning;
  LeaveState(index);
  unadmitted_ -= request.admitted ? 0U : 1U;
  by_id_.Erase(Value(request.id), index);
  request.sequence.Clear();
  request.tokens.Clear();
  request.status = State::kGone;
  (ran ? retired_ : unused_).push_back(index);
}

void SglangScheduler::EndWithout(std::uint32_t index,
                                 engine::OutputKind kind,
                                 std::string message) {
  SglangRequest& request = requests_[index];
  if (!request.muted) {
    endings_.push_back({request.id, 0, kind});
  }
  if (kind == engine::OutputKind::kFailed && !request.muted) {
    output_->failures.push_back({request.id, std::move(message)});
  }
  output_->progressed = true;
  Release(request, output_->events);
  Retire(index);
}

void SglangScheduler::CompactRunning() {
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
