#include "worker/call/outcome.h"

#include <algorithm>
#include <cmath>

namespace understudy::worker {

std::optional<double> Percentile(std::vector<double> values, double share) {
  if (values.empty()) {
    return std::nullopt;
  }
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

std::optional<GapSummary> SummarizeGaps(const std::vector<CallOutcome>& outcomes) {
  std::vector<double> gaps;
  double sum = 0;
  for (const auto& outcome : outcomes) {
    for (std::size_t i = 1; i < outcome.token_ms.size(); ++i) {
      gaps.push_back(outcome.token_ms[i] - outcome.token_ms[i - 1]);
      sum += gaps.back();
    }
  }
  if (gaps.empty()) {
    return std::nullopt;
  }
  GapSummary summary;
  summary.count = gaps.size();
  summary.mean = sum / static_cast<double>(gaps.size());
  summary.p50 = Percentile(gaps, 0.5).value_or(0);
  summary.p90 = Percentile(gaps, 0.9).value_or(0);
  summary.max = *std::max_element(gaps.begin(), gaps.end());
  return summary;
}

int ExitCodeOf(const std::vector<CallOutcome>& outcomes) {
  int code = 0;
  for (const auto& outcome : outcomes) {
    switch (outcome.end) {
      case CallOutcome::End::kDone:
      case CallOutcome::End::kCancelled:
        break;
      case CallOutcome::End::kTimedOut:
        code = code == 0 ? 4 : code;
        break;
      case CallOutcome::End::kRefused:
      case CallOutcome::End::kFailed:
      case CallOutcome::End::kInterrupted:
        code = 1;
        break;
    }
  }
  return code;
}

}  // namespace understudy::worker
