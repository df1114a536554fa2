#include "understudy/base/mailbox.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace understudy {
namespace {

TEST(Mailbox, RefusesBeyondItsCapacityAndLeavesTheItemUntouched) {
  Mailbox<std::unique_ptr<int>> box(2, 1);
  EXPECT_TRUE(box.Push(std::make_unique<int>(1)));
  EXPECT_TRUE(box.Push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(box.Push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_TRUE(box.PushReserved(std::move(third)));
  EXPECT_FALSE(box.PushReserved(std::make_unique<int>(4)));
  std::vector<std::unique_ptr<int>> out;
  box.TryDrain(out);
  EXPECT_EQ(out.size(), 3U);
  EXPECT_TRUE(box.Push(std::make_unique<int>(5))) << "draining makes room";
}

TEST(Mailbox, WakesTheConsumerWhenSomethingComes) {
  Mailbox<int> box(10, 0);
  std::thread producer([&] { EXPECT_TRUE(box.Push(7)); });
  std::vector<int> out;
  EXPECT_TRUE(box.Drain(out, std::nullopt));
  producer.join();
  EXPECT_EQ(out, std::vector<int>{7});
}

TEST(Mailbox, ComesBackEmptyAtTheDeadline) {
  Mailbox<int> box(10, 0);
  std::vector<int> out;
  EXPECT_TRUE(box.Drain(out, SteadyClock().Now() - std::chrono::seconds(1)));
  EXPECT_TRUE(out.empty());
}

TEST(Mailbox, WakesTheConsumerWhenClosedAndTakesNothingMore) {
  Mailbox<int> box(10, 10);
  std::thread closer([&] { box.Close(); });
  std::vector<int> out;
  EXPECT_FALSE(box.Drain(out, std::nullopt));
  closer.join();
  EXPECT_TRUE(box.closed());
  EXPECT_FALSE(box.Push(1));
  EXPECT_FALSE(box.PushReserved(1));
}

TEST(Mailbox, KeepsTheOrderOfEachProducer) {
  constexpr int kEach = 20000;
  Mailbox<std::pair<int, int>> box(4 * kEach, 0);
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&box, p] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(box.Push({p, i}));
      }
    });
  }
  std::vector<int> next(4, 0);
  std::vector<std::pair<int, int>> out;
  for (int seen = 0; seen < 4 * kEach;) {
    ASSERT_TRUE(box.Drain(out, std::nullopt));
    for (const auto& [p, i] : out) {
      EXPECT_EQ(i, next[static_cast<std::size_t>(p)]++);
    }
    seen += static_cast<int>(out.size());
    out.clear();
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
}

}  // namespace
}  // namespace understudy
