// A queue of requests: a list threaded through the request table.
#pragma once

#include "plugin/mocker/sglang/sglang_request.h"

#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// Requests join at either end and leave from anywhere: all in O(1). A request is in one queue at a
/// time.
class RequestQueue {
 public:
  using Requests = std::vector<SglangRequest>;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t front() const { return first_; }
  [[nodiscard]] std::uint32_t back() const { return last_; }

  void PushBack(Requests& requests, std::uint32_t index) {
    requests[index].next = kNoIndex;
    requests[index].previous = last_;
    (last_ == kNoIndex ? first_ : requests[last_].next) = index;
    last_ = index;
    ++size_;
  }

  void PushFront(Requests& requests, std::uint32_t index) {
    requests[index].previous = kNoIndex;
    requests[index].next = first_;
    (first_ == kNoIndex ? last_ : requests[first_].previous) = index;
    first_ = index;
    ++size_;
  }

  void Remove(Requests& requests, std::uint32_t index) {
    const SglangRequest& request = requests[index];
    (request.previous == kNoIndex ? first_ : requests[request.previous].next) = request.next;
    (request.next == kNoIndex ? last_ : requests[request.next].previous) = request.previous;
    --size_;
  }

 private:
  std::uint32_t first_ = kNoIndex;
  std::uint32_t last_ = kNoIndex;
  std::uint32_t size_ = 0;
};

}  // namespace understudy::mocker
