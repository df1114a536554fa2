#include "plugin/mocker/replay/sample_set.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace understudy::mocker {

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerS = 1e9;

/// Source: dynamo-mocker 1.3.0 report, rank of a percentile.
std::uint64_t RankOf(std::uint64_t count, double percentile) {
  const double rank = std::round(static_cast<double>(count - 1) * percentile / 100.0);
  return std::min(static_cast<std::uint64_t>(rank), count - 1);
}

}  // namespace

void SampleSet::Compact() {
  std::sort(
      runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.value < b.value; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    if (runs_[i].value == runs_[kept].value) {
      runs_[kept].count += runs_[i].count;
    } else {
      runs_[++kept] = runs_[i];
    }
  }
  runs_.resize(runs_.empty() ? 0 : kept + 1);
  if (runs_.size() > exact_max_ || !exact()) {
    Spill();
  }
  // Each compaction sorts at most twice what it leaves.
  compact_at_ = std::max<std::size_t>(1U << 16U, 2 * runs_.size());
}

void SampleSet::Spill() {
  for (const Run& run : runs_) {
    sketch_.Add(run.value, run.count);
  }
  const auto positive =
      std::find_if(runs_.begin(), runs_.end(), [](const Run& run) { return run.value > 0; });
  if (positive != runs_.end()) {
    sketch_min_ = std::min(sketch_min_, positive->value);
    sketch_max_ = std::max(sketch_max_, runs_.back().value);
  }
  runs_.clear();
  runs_.shrink_to_fit();
}

template <class Visit>
void SampleSet::ForEach(Visit visit) const {
  for (std::size_t i = 0; i < sketch_.counts().size(); ++i) {
    if (sketch_.counts()[i] > 0) {
      visit(i == 0 ? 0.0
                   : std::clamp(sketch_.ValueOf(i),
                                static_cast<double>(sketch_min_),
                                static_cast<double>(sketch_max_)),
            sketch_.counts()[i]);
    }
  }
  for (const Run& run : runs_) {
    visit(static_cast<double>(run.value), run.count);
  }
}

template <class Convert>
Distribution SampleSet::Describe(Convert convert, bool inverse) {
  Compact();
  Distribution out;
  double sum = 0.0;
  double low = 0.0;
  double high = 0.0;
  const auto taken = [inverse](double value) { return !inverse || value > 0.0; };
  ForEach([&](double value, std::uint64_t count) {
    if (taken(value)) {
      low = out.count == 0 ? value : low;
      high = value;
      out.count += count;
      sum += convert(value) * static_cast<double>(count);
    }
  });
  if (out.count == 0) {
    return out;
  }
  if (!exact()) {  // the ends are known better than their buckets
    high = static_cast<double>(sketch_max_);
    low = low > 0.0 ? static_cast<double>(sketch_min_) : low;
  }
  out.mean = sum / static_cast<double>(out.count);
  out.min = convert(inverse ? high : low);
  out.max = convert(inverse ? low : high);
  out.relative_error = exact() ? 0.0 : kSketchError;

  double* const places[] = {&out.median, &out.p75, &out.p90, &out.p95, &out.p99};
  std::uint64_t ranks[] = {RankOf(out.count, 50.0),
                           RankOf(out.count, 75.0),
                           RankOf(out.count, 90.0),
                           RankOf(out.count, 95.0),
                           RankOf(out.count, 99.0)};
  if (inverse) {  // the order of the inverses is the reverse one
    for (std::uint64_t& rank : ranks) {
      rank = out.count - 1 - rank;
    }
  }
  std::uint64_t before = 0;
  double squares = 0.0;
  ForEach([&](double value, std::uint64_t count) {
    if (!taken(value)) {
      return;
    }
    const double off = convert(value) - out.mean;
    squares += off * off * static_cast<double>(count);
    for (std::size_t i = 0; i < std::size(ranks); ++i) {
      if (ranks[i] >= before && ranks[i] < before + count) {
        *places[i] = convert(value);
      }
    }
    before += count;
  });
  out.std = std::sqrt(squares / static_cast<double>(out.count));
  return out;
}

Distribution SampleSet::Milliseconds() {
  return Describe([](double ns) { return ns / kNsPerMs; }, false);
}

Distribution SampleSet::PerSecond() {
  return Describe([](double ns) { return kNsPerS / ns; }, true);
}

}  // namespace understudy::mocker
