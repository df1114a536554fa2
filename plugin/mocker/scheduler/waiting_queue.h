// The queue of waiting requests: a list threaded through the request table.
#pragma once

#include "plugin/mocker/scheduler/request_state.h"

#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// New requests join at the back, preempted ones at the front, cancelled ones leave from anywhere:
/// all in O(1).
class WaitingQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t front() const { return first_; }

  void PushBack(std::vector<RequestState>& requests, std::uint32_t index);
  void PushFront(std::vector<RequestState>& requests, std::uint32_t index);
  /// After all that came earlier; walks over those that came later.
  void InsertByArrival(std::vector<RequestState>& requests, std::uint32_t index);
  void Remove(std::vector<RequestState>& requests, std::uint32_t index);

 private:
  std::uint32_t first_ = kNoIndex;
  std::uint32_t last_ = kNoIndex;
  std::uint32_t size_ = 0;
};

}  // namespace understudy::mocker
