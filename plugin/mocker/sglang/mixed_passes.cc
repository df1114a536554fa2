#include "plugin/mocker/sglang/mixed_passes.h"

#include <algorithm>
#include <span>

namespace understudy::mocker {

void MixedPasses::Compute() {
  PromotePrebuilt();
  policy_->Order(waiting_, requests_, cache_);
  Admit();
  SortIn();
  Decode();
}

void MixedPasses::Requeue() {
  if (!retracted_.empty()) {
    for (auto index = retracted_.rbegin(); index != retracted_.rend(); ++index) {
      waiting_.PushFront(requests_, *index);
    }
    retracted_.clear();
    output_ratio_ = first_ratio_;
  }
  output_ratio_ =
      std::max(last_ratio_, output_ratio_ - (first_ratio_ - last_ratio_) / kRatioPasses);
}

std::optional<std::uint64_t> MixedPasses::Chunk(std::uint64_t missing, const Budget& budget) const {
  if (missing == 0 && config_.strict_reference) {
    return std::nullopt;  // Dynamo 1.3.0 never admits an empty prompt
  }
  return missing <= config_.sglang.chunked_prefill_size
             ? missing
             : std::min(budget.chunk / page_size_ * page_size_, missing);
}

bool MixedPasses::Materialize(SglangRequest& request, Part& part) {
  const bool begins = request.materialized == 0;
  const std::uint64_t end = request.materialized + part.tokens;
  const auto pages = std::span(request.sequence.pages()).first(end / page_size_);
  // Room for all of them, before it is known what is cached: an eviction may hit just that.
  cache_.MakeRoom(part.tokens, output_->events);
  if (begins) {
    const RadixCache::Match match = cache_.MatchAndLock(pages);
    request.node = match.node;
    request.tree_pages = request.registered_pages = static_cast<std::uint32_t>(match.pages);
    part.reused = match.pages * page_size_;
  }
  part.hit = part.reused;
  cache_.Take(end - part.reused);
  cache_.Register(pages, request.registered_pages, output_->events, request.sequence.tokens());
  request.registered_pages = static_cast<std::uint32_t>(pages.size());
  request.materialized = end;
  return true;
}

}  // namespace understudy::mocker
