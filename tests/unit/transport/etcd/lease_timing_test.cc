#include "transport/etcd/lease.h"

#include <set>

#include <gtest/gtest.h>

namespace understudy::transport::etcd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LeaseTiming, RetriesAtOnceThenFromHalfASecondDoublingToFive) {
  const Nanoseconds expected[] = {milliseconds(0),
                                  milliseconds(500),
                                  seconds(1),
                                  seconds(2),
                                  seconds(4),
                                  seconds(5),
                                  seconds(5)};
  for (unsigned i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(RetryDelay(i + 1), expected[i]) << i;
  }
  EXPECT_EQ(RetryDelay(4'000'000'000U), seconds(5));
}

TEST(LeaseTiming, JitterStaysWithinATenthAndDiffersBetweenWorkers) {
  constexpr Nanoseconds kDelay = seconds(10);
  std::mt19937_64 one(1);
  std::mt19937_64 two(2);
  std::set<Nanoseconds> seen;
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds first = WithJitter(kDelay, one);
    const Nanoseconds second = WithJitter(kDelay, two);
    EXPECT_GE(first, seconds(9));
    EXPECT_LE(first, seconds(11));
    EXPECT_NE(first, second);
    seen.insert(first);
  }
  EXPECT_GT(seen.size(), 990U);
  EXPECT_LT(*seen.begin(), milliseconds(9100));
  EXPECT_GT(*seen.rbegin(), milliseconds(10900));
}

}  // namespace
}  // namespace understudy::transport::etcd
