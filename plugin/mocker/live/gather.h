// One question to several engine threads, and the way back of their answers.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace understudy::mocker {

/// Shared by all who are asked. Whoever lets go of it last, having answered or not, says `done`.
template <class T>
class Gather {
 public:
  using Done = std::function<void(std::vector<T>)>;
  explicit Gather(Done done) : done_(std::move(done)) {}
  ~Gather() {
    std::sort(parts_.begin(), parts_.end(), [](const T& a, const T& b) { return a.rank < b.rank; });
    done_(std::move(parts_));
  }
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  /// Any thread.
  void Add(const T& part) {
    const std::lock_guard lock(mutex_);
    parts_.push_back(part);
  }

 private:
  Done done_;
  std::mutex mutex_;
  std::vector<T> parts_;
};

}  // namespace understudy::mocker
