#include "worker/request_path/request_table.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

TEST(RequestTable, M253_ALateOutputDoesNotReachTheNextRequestInTheSlot) {
  RequestTable table(4);
  auto& first = table.Open("a");
  const auto old_id = RequestTable::IdOf(first);
  table.Close(first);
  auto& second = table.Open("b");
  EXPECT_EQ(second.slot, 0U);
  EXPECT_EQ(table.Find(old_id), nullptr);
  EXPECT_EQ(table.Find(RequestTable::IdOf(second)), &second);
}

TEST(RequestTable, KnowsItsBound) {
  RequestTable table(2);
  auto& a = table.Open("a");
  table.Open("b");
  EXPECT_TRUE(table.full());
  table.Close(a);
  EXPECT_FALSE(table.full());
}

TEST(RequestTable, AFinishingStreamFreesItsIdButNotItsPlace) {
  RequestTable table(2);
  auto& a = table.Open("a");
  const auto id = RequestTable::IdOf(a);
  EXPECT_TRUE(table.Holds("a"));
  table.Finishing(a);
  EXPECT_FALSE(table.Holds("a"));
  EXPECT_EQ(table.running(), 0U);
  EXPECT_EQ(table.open(), 1U);
  EXPECT_EQ(table.Find(id), nullptr);
  EXPECT_EQ(table.FindOpen(id), &a);
  table.Close(a);
  EXPECT_EQ(table.open(), 0U);
  EXPECT_EQ(table.FindOpen(id), nullptr);
}

TEST(RequestTable, UnknownIdsFindNothing) {
  RequestTable table(2);
  EXPECT_EQ(table.Find(RequestId{0}), nullptr);
  EXPECT_EQ(table.FindOpen(RequestId{~std::uint64_t{0}}), nullptr);
}

}  // namespace
}  // namespace understudy::worker
