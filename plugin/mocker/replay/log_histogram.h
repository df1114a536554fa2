// Counts of positive values in buckets of equal relative width.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace understudy::mocker {

/// Values are whole nanoseconds; 0 has a bucket of its own. A value is told back with a relative
/// error of at most `error`. Memory grows with the greatest value seen: 8 bytes a bucket, about
/// 20,000 buckets for one year at an error of 0.001.
class LogHistogram {
 public:
  explicit LogHistogram(double error)
      : gamma_log_(std::log((1.0 + error) / (1.0 - error))),
        middle_(2.0 / (1.0 + (1.0 + error) / (1.0 - error))) {}

  void Add(std::uint64_t value, std::uint64_t count) {
    const std::size_t bucket = BucketOf(value);
    if (bucket >= counts_.size()) {
      counts_.resize(bucket + 1);
    }
    counts_[bucket] += count;
    total_ += count;
  }

  void Merge(const LogHistogram& other);

  /// The value at `index` of all values in ascending order; index < total().
  [[nodiscard]] double ValueAt(std::uint64_t index) const;

  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  /// What values of bucket `bucket` are told back as.
  [[nodiscard]] double ValueOf(std::size_t bucket) const;

 private:
  [[nodiscard]] std::size_t BucketOf(std::uint64_t value) const {
    return value == 0 ? 0
                      : 1 + static_cast<std::size_t>(
                                std::ceil(std::log(static_cast<double>(value)) / gamma_log_));
  }

  double gamma_log_;
  double middle_;  ///< of a bucket, as a share of its upper end
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace understudy::mocker
