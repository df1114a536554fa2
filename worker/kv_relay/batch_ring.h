// The latest batches of an engine, for those who missed some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace understudy::worker {

/// Payloads by sequence, which counts from 0. The oldest go when a bound is reached; the latest
/// always stays.
class BatchRing {
 public:
  struct Limits {
    std::size_t batches_max = 10'000;  ///< as vLLM, SGLang and dynamo-mocker
    std::size_t bytes_max = 64U << 20;
  };
  explicit BatchRing(const Limits& limits) : limits_(limits) {}

  /// Takes the payload of batch end().
  void Push(std::string payload) {
    bytes_ += payload.size();
    payloads_.push_back(std::move(payload));
    while (payloads_.size() > 1 &&
           (payloads_.size() > limits_.batches_max || bytes_ > limits_.bytes_max)) {
      bytes_ -= payloads_.front().size();
      payloads_.pop_front();
      ++begin_;
    }
  }

  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return begin_ + payloads_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// `sequence` in begin() .. end() - 1.
  [[nodiscard]] const std::string& At(std::uint64_t sequence) const {
    return payloads_[sequence - begin_];
  }

 private:
  Limits limits_;
  std::deque<std::string> payloads_;
  std::uint64_t begin_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace understudy::worker
