// What requests put into the cache, and how they give back what they hold.
#include "plugin/mocker/sglang/sglang_scheduler.h"

#include <span>

namespace understudy::mocker {

void SglangScheduler::PublishPages(SglangRequest& request, std::size_t complete, EventLog& log) {
  if (complete <= request.cached_pages || !cache_.matches()) {
    return;
  }
  const auto pages = std::span(request.sequence.pages()).first(complete);
  cache_.Register(pages, request.registered_pages, log, request.sequence.tokens());
  request.node = cache_.ExtendAndLock(request.node, pages, request.tree_pages, log);
  request.registered_pages = request.tree_pages = request.cached_pages =
      static_cast<std::uint32_t>(complete);
}

void SglangScheduler::CacheAndRelease(SglangRequest& request, EventLog& log) {
  const std::size_t complete = request.materialized / page_size_;
  const auto pages = std::span(request.sequence.pages()).first(complete);
  if (complete > 0 && cache_.matches()) {
    cache_.Register(pages, request.registered_pages, log, request.sequence.tokens());
    request.node = cache_.ExtendAndLock(request.node, pages, request.tree_pages, log);
    request.registered_pages = static_cast<std::uint32_t>(complete);
  }
  Release(request, log);  // what is left: the incomplete page, copies of what the tree had already
}

void SglangScheduler::Release(SglangRequest& request, EventLog& log) {
  if (request.materialized == 0 && request.reserved == 0 && request.node == kRootNode) {
    return;
  }
  const std::uint64_t registered = std::uint64_t{request.registered_pages} * page_size_;
  cache_.Drop(std::span(request.sequence.pages()).first(request.registered_pages), log);
  cache_.Return(request.status == State::kReserved ? request.reserved
                                                   : HeldTokens(request.materialized) - registered);
  cache_.Unlock(request.node);
  request.node = kRootNode;
  request.tree_pages = request.cached_pages = request.registered_pages = 0;
  request.materialized = request.reserved = 0;
  ++capacity_changes_;
}

}  // namespace understudy::mocker
