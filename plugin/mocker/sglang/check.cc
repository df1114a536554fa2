// The rank's books against what requests and cache really hold. For tests.
#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <algorithm>

namespace understudy::mocker {

std::string SglangScheduler::CheckConsistency() const {
  if (std::string problem = CheckQueues(); !problem.empty()) {
    return problem;
  }
  for (const SglangRequest& request : requests_) {
    if (std::string problem = CheckRequest(request); !problem.empty()) {
      return "request " + std::to_string(Value(request.id)) + ": " + problem;
    }
  }
  return CheckTokens();
}

std::string SglangScheduler::CheckQueues() const {
  std::uint32_t running = 0;
  std::uint32_t unadmitted = 0;
  std::uint32_t apart = 0;  // held, pending or reserved
  std::uint32_t queued = 0;
  std::uint64_t running_slack = 0;
  std::uint64_t prebuilt_slack = 0;
  for (const SglangRequest& request : requests_) {
    const State status = request.status;
    unadmitted += status != State::kGone && !request.admitted ? 1U : 0U;
    running += status == State::kRunning ? 1U : 0U;
    running_slack += status == State::kRunning ? Slack(request.length) : 0;
    prebuilt_slack += status == State::kPrebuilt ? Slack(request.length) : 0;
    queued += status == State::kWaiting || status == State::kPrebuilt ? 1U : 0U;
    apart +=
        status == State::kHeld || status == State::kPending || status == State::kReserved ? 1U : 0U;
  }
  if (running != running_count_ || queued != waiting_.size() + prebuilt_.size() ||
      apart != held_ + pending_.size() + reserved_ || unadmitted != unadmitted_ ||
      by_id_.size() != running + queued + apart) {
    return "the queues do not match the requests";
  }
  if (running_slack != running_slack_ || prebuilt_slack != prebuilt_slack_) {
    return "the free places in last pages are counted wrong";
  }
  return {};
}

std::string SglangScheduler::CheckRequest(const SglangRequest& request) const {
  const auto& pages = request.sequence.pages();
  if (request.length > request.length_max || request.materialized > request.length) {
    return "more tokens than there may be";
  }
  if (request.tree_pages > request.registered_pages || request.cached_pages > request.tree_pages ||
      request.registered_pages > pages.size()) {
    return "its pages are counted wrong";
  }
  switch (request.status) {
    case State::kWaiting:
      return request.materialized % page_size_ == 0 ? "" : "waits with an incomplete page";
    case State::kRunning:
    case State::kPrebuilt:
      return request.materialized == request.length ? "" : "is not computed to its end";
    case State::kHeld:  // the last token may have no place
      return request.materialized + 1 >= request.length ? "" : "is not computed to its end";
    case State::kReserved:
      return request.materialized == 0 ? "" : "is computed already";
    case State::kPending:
    case State::kGone:
      return request.node == kRootNode && request.materialized + request.reserved == 0
                 ? ""
                 : "holds something";
    case State::kAdmitted:
      break;
  }
  return "was left in the middle of a pass";
}

std::string SglangScheduler::CheckTokens() const {
  std::vector<std::uint32_t> holders;
  std::uint64_t tokens = 0;
  std::uint64_t copies = 0;
  for (const SglangRequest& request : requests_) {
    if (request.node != kRootNode) {
      holders.push_back(request.node);
    }
    const auto& pages = request.sequence.pages();
    const auto own = static_cast<std::uint64_t>(std::count_if(
        pages.begin(), pages.end(), [](const Page& page) { return page.copy != kNoIndex; }));
    copies += own;
    tokens += own * page_size_ + request.reserved;
    if (request.materialized > 0) {
      tokens +=
          HeldTokens(request.materialized) - std::uint64_t{request.registered_pages} * page_size_;
    }
  }
  if (std::string problem = cache_.CheckConsistency(holders); !problem.empty()) {
    return problem;
  }
  if (copies != cache_.copies_outside_tree() || tokens != cache_.tokens_outside_tree()) {
    return "requests hold " + std::to_string(tokens) + " tokens in " + std::to_string(copies) +
           " pages outside the tree, the cache has given out " +
           std::to_string(cache_.tokens_outside_tree()) + " in " +
           std::to_string(cache_.copies_outside_tree());
  }
  return {};
}

}  // namespace understudy::mocker
