// Both ends of a hand-off: prompts computed here for others, and elsewhere for us.
#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <span>

namespace understudy::mocker {

namespace {

constexpr const char* kBeyondModel = "destination prompt must be shorter than max_model_len";
constexpr const char* kBeyondPool = "destination prompt exceeds the KV pool capacity";

}  // namespace

void SglangScheduler::SubmitSource(engine::Request request) {
  const std::uint32_t index = NewRequest(std::move(request));
  requests_[index].source = true;
  waiting_.PushBack(requests_, index);
}

bool SglangScheduler::ReleaseSource(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || requests_[index].status != State::kHeld) {
    return false;
  }
  CacheAndRelease(requests_[index], output.events);
  Retire(index);
  RetryDestination(output);
  return true;
}

Status SglangScheduler::ReserveDestination(engine::Request request,
                                           bool in_pass,
                                           CommandOutput& output) {
  if (config_.model_len_max != 0 && request.prompt.size() >= config_.model_len_max) {
    return Fail(Errc::kOverloaded, kBeyondModel);
  }
  if (RoundUp(request.prompt.size()) > cache_.total_tokens()) {
    return Fail(Errc::kOverloaded, kBeyondPool);
  }
  const std::uint32_t index = NewRequest(std::move(request));
  requests_[index].status = State::kPending;
  requests_[index].destination = true;
  pending_.PushBack(requests_, index);
  if (!in_pass) {
    RetryDestination(output);
  }
  return {};
}

void SglangScheduler::RetryDestination(CommandOutput& output) {
  if (pending_.empty()) {
    return;
  }
  const std::uint32_t index = pending_.front();
  SglangRequest& request = requests_[index];
  if (request.retry_at == capacity_changes_) {
    return;  // it was refused, and nothing has been freed since
  }
  request.retry_at = capacity_changes_;
  request.sequence.MakePages(request.left());
  const RadixCache::Match match = cache_.MatchAndLock(request.sequence.pages());
  const std::uint64_t missing = RoundUp(request.prompt_length) - match.pages * page_size_;
  if (missing > cache_.available_tokens()) {
    cache_.Unlock(match.node);
    return;
  }
  cache_.MakeRoom(missing, output.events);
  cache_.Take(missing);
  pending_.Remove(requests_, index);
  request.status = State::kReserved;
  ++reserved_;
  request.node = match.node;
  request.tree_pages = request.registered_pages = static_cast<std::uint32_t>(match.pages);
  request.reserved = missing;
  output.notices.push_back({request.id, HandoffNotice::Kind::kDestinationReserved, missing});
}

bool SglangScheduler::ActivateDestination(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || requests_[index].status != State::kReserved) {
    return false;
  }
  SglangRequest& request = requests_[index];
  const std::uint64_t available_before = cache_.available_tokens();
  // With a pool of tokens what was set aside beyond the prompt's end becomes free again: it is only
  // counted from now on.
  const std::uint64_t surplus = Slack(request.length);
  cache_.Return(surplus);
  request.reserved = 0;
  request.materialized = request.prompt_length;
  PublishPages(request, request.sequence.pages().size(), output.events);
  capacity_changes_ += cache_.available_tokens() > available_before ? 1U : 0U;
  --reserved_;
  request.status = State::kPrebuilt;
  prebuilt_.PushBack(requests_, index);
  prebuilt_slack_ += surplus;
  RetryDestination(output);
  return true;
}

bool SglangScheduler::CancelDestination(RequestId id, CommandOutput& output) {
  const std::uint32_t index = IndexOf(id);
  if (index == kNoIndex || !requests_[index].destination) {
    return false;
  }
  Release(requests_[index], output.events);
  Retire(index);
  RetryDestination(output);
  return true;
}

}  // namespace understudy::mocker
