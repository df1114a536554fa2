#include "plugin/mocker/kv_cache/index_table.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

TEST(IndexTable, FindsNothingWhenEmpty) {
  const IndexTable table;
  EXPECT_EQ(table.Find(1, [](std::uint32_t) { return true; }), kNoIndex);
}

TEST(IndexTable, TellsEntriesWithOneHashApartByTheCallersKey) {
  IndexTable table;
  for (std::uint32_t i = 0; i < 100; ++i) {
    table.Insert(42, i);
  }
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(table.Find(42, [i](std::uint32_t index) { return index == i; }), i);
  }
  EXPECT_EQ(table.Find(42, [](std::uint32_t index) { return index == 100; }), kNoIndex);
}

class IndexTableModel : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(IndexTableModel, AgreesWithAMapWhateverIsInsertedAndErased) {
  std::mt19937 random(GetParam());
  IndexTable table;
  std::map<std::uint32_t, std::uint64_t>
      model;  // index -> hash; few hashes, so that runs collide and wrap
  for (int step = 0; step < 2000; ++step) {
    const auto index = static_cast<std::uint32_t>(random() % 300);
    if (const auto found = model.find(index); found != model.end()) {
      table.Erase(found->second, index);
      model.erase(found);
    } else {
      const std::uint64_t hash = random() % 40;
      table.Insert(hash, index);
      model[index] = hash;
    }
    ASSERT_EQ(table.size(), model.size());
  }
  for (std::uint32_t index = 0; index < 300; ++index) {
    for (std::uint64_t hash = 0; hash < 40; ++hash) {
      const auto found = model.find(index);
      const bool expected = found != model.end() && found->second == hash;
      // Equal tags stand for equal hashes here: the table compares 32 bits of a mixed hash, the
      // caller the rest.
      const std::uint32_t got =
          table.Find(hash, [&](std::uint32_t i) { return i == index && model.at(i) == hash; });
      EXPECT_EQ(got == index, expected);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, IndexTableModel, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace understudy::mocker
