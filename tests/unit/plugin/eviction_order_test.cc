#include "plugin/mocker/kv_cache/eviction_order.h"

#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

TEST(EvictionOrder, HandsOutTheSmallestLiveTick) {
  EvictionOrder order;
  const auto all = [](const EvictionOrder::Entry&) { return true; };
  for (const std::uint64_t tick : {5U, 3U, 9U, 1U}) {
    order.Push({tick, static_cast<std::uint32_t>(tick)}, 10, all);
  }
  const auto odd_one_out = [](const EvictionOrder::Entry& entry) { return entry.tick != 1; };
  EXPECT_EQ(order.Pop(odd_one_out).tick, 3U);
  EXPECT_EQ(order.Pop(all).tick, 5U);
  EXPECT_EQ(order.Pop(all).tick, 9U);
  EXPECT_EQ(order.Pop(all).slot, kNoIndex);
}

TEST(EvictionOrder, StaleEntriesDoNotPileUp) {
  EvictionOrder order;
  std::uint64_t newest = 0;
  const auto live = [&](const EvictionOrder::Entry& entry) { return entry.tick == newest; };
  for (std::uint64_t tick = 1; tick <= 100000; ++tick) {
    newest = tick;
    order.Push({tick, 0}, 1, live);
  }
  EXPECT_LT(order.size(), 200U);
  EXPECT_EQ(order.Pop(live).tick, newest);
}

}  // namespace
}  // namespace understudy::mocker
