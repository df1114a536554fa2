#include "plugin/mocker/sglang/queue_policy.h"

#include <algorithm>

namespace understudy::mocker {

namespace {

/// A longer queue is left as it is.
constexpr std::uint32_t kOrderedMax = 128;
/// A request that finds at most so many tokens in the cache waits for one before it in the queue
/// that begins with the same so many tokens: in the next pass it finds them there.
constexpr std::uint32_t kSharedTokens = 32;

/// First come, first served.
class FifoPolicy final : public QueuePolicy {
 public:
  void Order(RequestQueue& /*waiting*/,
             RequestQueue::Requests& /*requests*/,
             const RadixCache& /*cache*/) override {}
};

/// Longest prefix match first.
class LpmPolicy final : public QueuePolicy {
 public:
  explicit LpmPolicy(std::uint32_t page_size)
      : page_size_(page_size), shared_pages_((kSharedTokens + page_size - 1) / page_size) {}

  void Order(RequestQueue& waiting,
             RequestQueue::Requests& requests,
             const RadixCache& cache) override {
    if (waiting.size() < 2 || waiting.size() > kOrderedMax) {
      return;
    }
    Score(waiting, requests, cache);
    std::stable_sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
      return a.late != b.late ? b.late : a.cached > b.cached;
    });
    for (const Place& place : places_) {
      waiting.Remove(requests, place.index);
      waiting.PushBack(requests, place.index);
    }
  }

 private:
  struct Place {
    std::uint32_t index = kNoIndex;
    std::size_t cached = 0;  ///< pages
    bool late = false;
  };

  void Score(const RequestQueue& waiting,
             RequestQueue::Requests& requests,
             const RadixCache& cache) {
    places_.clear();
    first_of_.clear();
    for (std::uint32_t i = waiting.front(); i != kNoIndex; i = requests[i].next) {
      SglangRequest& request = requests[i];
      request.sequence.MakePages(request.left());
      Place place{i, cache.Peek(request.sequence.pages()), false};
      place.late = place.cached * page_size_ <= kSharedTokens && SharesBeginning(request);
      places_.push_back(place);
    }
  }

  /// A chained hash names all that stands before it, so one hash tells whether two prompts begin
  /// alike.
  bool SharesBeginning(const SglangRequest& request) {
    const auto& pages = request.sequence.pages();
    if (pages.size() < shared_pages_) {
      return false;
    }
    const BlockHash beginning = pages[shared_pages_ - 1].hash;
    if (std::find(first_of_.begin(), first_of_.end(), beginning) != first_of_.end()) {
      return true;
    }
    first_of_.push_back(beginning);
    return false;
  }

  const std::uint32_t page_size_;
  const std::uint32_t shared_pages_;
  std::vector<Place> places_;
  std::vector<BlockHash> first_of_;
};

}  // namespace

std::unique_ptr<QueuePolicy> NewQueuePolicy(SglangPolicy kind, std::uint32_t page_size) {
  if (kind == SglangPolicy::kLpm) {
    return std::make_unique<LpmPolicy>(page_size);
  }
  return std::make_unique<FifoPolicy>();
}

}  // namespace understudy::mocker
