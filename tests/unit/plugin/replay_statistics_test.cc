// Distributions and plots of a run.
#include "plugin/mocker/replay/flat_map.h"
#include "plugin/mocker/replay/sample_set.h"
#include "plugin/mocker/replay/series.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

/// As the original defines it.
double Percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(
      std::round(static_cast<double>(values.size() - 1) * percent / 100.0))];
}

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

double Deviation(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - Mean(values)) * (value - Mean(values));
  }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

void ExpectDistribution(const Distribution& got, const std::vector<double>& want, double error) {
  const auto near = [error](double value) { return std::abs(value) * error + 1e-12; };
  EXPECT_EQ(got.count, want.size());
  EXPECT_NEAR(got.mean, Mean(want), near(Mean(want)));
  EXPECT_NEAR(got.min, *std::min_element(want.begin(), want.end()), 1e-9);
  EXPECT_NEAR(got.max, *std::max_element(want.begin(), want.end()), 1e-9 * got.max);
  EXPECT_NEAR(got.median, Percentile(want, 50), near(Percentile(want, 50)));
  EXPECT_NEAR(got.p75, Percentile(want, 75), near(Percentile(want, 75)));
  EXPECT_NEAR(got.p90, Percentile(want, 90), near(Percentile(want, 90)));
  EXPECT_NEAR(got.p95, Percentile(want, 95), near(Percentile(want, 95)));
  EXPECT_NEAR(got.p99, Percentile(want, 99), near(Percentile(want, 99)));
  EXPECT_NEAR(got.std, Deviation(want), near(std::hypot(Mean(want), Deviation(want))));
}

class SampleSetSeeds : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SampleSetSeeds, ExactOrWithinTheErrorOfTheSketch) {
  std::mt19937 random(GetParam());
  const std::size_t count = 1 + random() % 3000;
  const std::uint64_t spread = 1 + random() % 2'000'000'000;
  const bool bounded = random() % 2 == 0;
  SampleSet set(bounded ? 10 : kExactSamplesMax);
  std::vector<double> ms;
  std::vector<double> per_second;
  while (ms.size() < count) {
    const std::uint64_t value = random() % 4 == 0 ? 0 : random() % spread;
    const std::size_t times = 1 + random() % 3;
    set.Add(value, times);
    for (std::size_t i = 0; i < times; ++i) {
      ms.push_back(static_cast<double>(value) / 1e6);
      if (value > 0) {
        per_second.push_back(1e9 / static_cast<double>(value));
      }
    }
  }

  const Distribution got = set.Milliseconds();
  ExpectDistribution(got, ms, got.relative_error + 1e-9);
  if (!per_second.empty()) {
    ExpectDistribution(set.PerSecond(), per_second, got.relative_error * 1.01 + 1e-9);
  }
  EXPECT_EQ(got.relative_error == 0.0, set.exact());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SampleSetSeeds, ::testing::Range(0U, 40U));

TEST(SampleSet, NothingIsAllZero) {
  SampleSet set;
  const Distribution got = set.Milliseconds();
  EXPECT_EQ(got.count, 0U);
  EXPECT_EQ(got.p99, 0.0);
  set.Add(0);
  EXPECT_EQ(set.PerSecond().count, 0U) << "no rate for a gap of zero";
}

TEST(SampleSet, EqualValuesTakeOnePlace) {
  SampleSet set;
  for (int i = 0; i < 1'000'000; ++i) {
    set.Add(static_cast<std::uint64_t>(5'740'000 + i % 7));
  }
  EXPECT_EQ(set.Milliseconds().count, 1'000'000U);
  EXPECT_EQ(set.distinct(), 7U);
}

TEST(SampleSet, KeepsItsBoundBeyondManyDistinctValues) {
  constexpr std::uint64_t kMax = 100'000;
  SampleSet set(kMax);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    set.Add(1'000'000 + i * 1000);
    ASSERT_LE(set.distinct(), 2 * kMax + 1);
  }
  const Distribution got = set.Milliseconds();
  EXPECT_FALSE(set.exact());
  EXPECT_NEAR(got.median, 501.0, 501.0 * kSketchError);
  EXPECT_EQ(got.min, 1.0);
  EXPECT_NEAR(got.max, 1000.999, 1e-9);
}

TEST(LogHistogram, TellsValuesBackWithinItsError) {
  for (const double error : {kSketchError, kBucketError}) {
    for (double value = 1.0; value < 1e15; value *= 1.7) {
      LogHistogram histogram(error);
      histogram.Add(static_cast<std::uint64_t>(value), 1);
      const double exact = static_cast<double>(static_cast<std::uint64_t>(value));
      EXPECT_NEAR(histogram.ValueAt(0), exact, exact * error * 1.0001) << error;
    }
  }
}

TEST(Series, BucketsStayBoundedAndLoseNothing) {
  SeriesBuilder series;
  double at = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    series.AddArrival(at);
    series.AddTokens(at, 3);
    series.AddCompleted(at);
    series.AddLoad({at, at + 7.0, 4, 2, 0.25});
    at += 7.0;
  }

  const ReplaySeries got = series.Build(at);

  EXPECT_LE(got.buckets.size(), kReplayBucketsMax);
  EXPECT_GE(got.buckets.size(), kReplayBucketsMax / 2 - 1);
  double arrivals = 0.0;
  for (std::size_t i = 0; i < got.buckets.size(); ++i) {
    const ReplayBucket& bucket = got.buckets[i];
    const double end = std::min(bucket.start_ms + got.bucket_ms, at);
    arrivals += bucket.arrivals_rps * (end - bucket.start_ms) / 1000.0;
    EXPECT_NEAR(bucket.waiting_mean, 4.0, 1e-6);
    EXPECT_NEAR(bucket.running_mean, 2.0, 1e-6);
    EXPECT_NEAR(bucket.blocks_used_ratio, 0.25, 1e-9);
    EXPECT_NEAR(bucket.output_tok_s, 3.0 * bucket.arrivals_rps, 1e-6);
  }
  EXPECT_NEAR(arrivals, 50'000.0, 0.5);
}

TEST(Series, PercentilesAreThoseOfTheirBucket) {
  SeriesBuilder series;
  for (int i = 1; i <= 100; ++i) {
    series.AddFirstToken(0.5, static_cast<std::uint64_t>(i) * 1'000'000);
    series.AddGaps(2.5, 5'000'000, 10);
  }
  const ReplaySeries got = series.Build(3.0);
  ASSERT_EQ(got.buckets.size(), 3U);
  EXPECT_NEAR(*got.buckets[0].ttft_p50_ms, 51.0, 51.0 * kBucketError);
  EXPECT_NEAR(*got.buckets[0].ttft_p99_ms, 99.0, 99.0 * kBucketError);
  EXPECT_FALSE(got.buckets[0].itl_p50_ms);
  EXPECT_FALSE(got.buckets[1].ttft_p50_ms);
  EXPECT_NEAR(*got.buckets[2].itl_p99_ms, 5.0, 5.0 * kBucketError);
  EXPECT_FALSE(got.buckets[2].cache_hit_ratio) << "nobody was admitted";
}

class FlatMapSeeds : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(FlatMapSeeds, DoesWhatAnOrdinaryTableDoes) {
  std::mt19937_64 random(GetParam());
  FlatMap<std::uint32_t> map;
  std::unordered_map<std::uint64_t, std::uint32_t> want;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t key = random() % 500 << (random() % 2 * 40);
    if (random() % 3 != 0) {
      map.At(key) += 2;
      want[key] += 2;
    } else if (want.erase(key) > 0) {
      map.Erase(key);
    }
    ASSERT_EQ(map.size(), want.size());
  }
  for (std::uint64_t key = 0; key < 500; ++key) {
    const std::uint32_t* const found = map.Find(key);
    ASSERT_EQ(found != nullptr, want.count(key) == 1) << key;
    if (found != nullptr) {
      EXPECT_EQ(*found, want[key]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FlatMapSeeds, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace understudy::mocker
