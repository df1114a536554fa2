#include "plugin/mocker/replay/log_histogram.h"

namespace understudy::mocker {

void LogHistogram::Merge(const LogHistogram& other) {
  if (other.counts_.size() > counts_.size()) {
    counts_.resize(other.counts_.size());
  }
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
  total_ += other.total_;
}

double LogHistogram::ValueOf(std::size_t bucket) const {
  return bucket == 0 ? 0.0 : middle_ * std::exp(gamma_log_ * static_cast<double>(bucket - 1));
}

double LogHistogram::ValueAt(std::uint64_t index) const {
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    before += counts_[i];
    if (index < before) {
      return ValueOf(i);
    }
  }
  return counts_.empty() ? 0.0 : ValueOf(counts_.size() - 1);
}

}  // namespace understudy::mocker
