#include "worker/kv_relay/cache_namespaces.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::EngineKvStored;

EngineKvStored Keys(std::vector<transport::KvExtraKey> keys) {
  EngineKvStored event;
  event.extra_keys = std::move(keys);
  return event;
}

TEST(SaltOf, TakesTheMarkedKeyOfTheFirstBlock) {
  EXPECT_EQ(SaltOf(Keys({{0, "lora"}, {0, "dynamo-cache-salt:tenant"}})), "tenant");
  EXPECT_EQ(SaltOf(Keys({{1, "dynamo-cache-salt:tenant"}})), "");
  EXPECT_EQ(SaltOf(Keys({{0, "dynamo-cache-salt:"}})), "");
  EXPECT_EQ(SaltOf(Keys({{0, "tenant"}})), "");
}

TEST(SaltOf, ALoraNameThatLooksLikeTheMarkerIsNone) {
  EngineKvStored event = Keys({{0, "dynamo-cache-salt:x"}});
  event.lora_name = "dynamo-cache-salt:x";
  EXPECT_EQ(SaltOf(event), "");
  event.extra_keys.push_back({0, "dynamo-cache-salt:x"});
  EXPECT_EQ(SaltOf(event), "x");
}

TEST(SaltOf, ItsOwnFieldWinsAlsoWhenItIsEmpty) {
  EngineKvStored event = Keys({{0, "dynamo-cache-salt:key"}});
  event.cache_salt = "field";
  EXPECT_EQ(SaltOf(event), "field");
  event.cache_salt = "";
  EXPECT_EQ(SaltOf(event), "");
}

TEST(CacheNamespaces, AnUnsaltedStoreOfASaltedBlockMakesItAmbiguous) {
  CacheNamespaces namespaces;
  EngineKvStored block;
  block.hashes = {BlockHash{1}};
  std::string salt = "a";
  ASSERT_TRUE(namespaces.OnStored(block, DpRank{0}, salt));
  salt.clear();
  ASSERT_TRUE(namespaces.OnStored(block, DpRank{0}, salt));
  EngineKvStored child;
  child.parent = BlockHash{1};
  EXPECT_FALSE(namespaces.OnStored(child, DpRank{0}, salt));
  namespaces.OnRemoved({{}, {BlockHash{1}}}, DpRank{0});
  EXPECT_FALSE(namespaces.OnStored(child, DpRank{0}, salt)) << "another tenant may still hold it";
  namespaces.OnCleared(DpRank{0});
  EXPECT_TRUE(namespaces.OnStored(child, DpRank{0}, salt));
}

TEST(CacheNamespaces, ASaltedChildOfAnAmbiguousParentIsClearAboutItself) {
  CacheNamespaces namespaces;
  EngineKvStored block;
  block.hashes = {BlockHash{1}};
  for (std::string salt : {"a", "b"}) {
    ASSERT_TRUE(namespaces.OnStored(block, DpRank{0}, salt));
  }
  EngineKvStored child;
  child.parent = BlockHash{1};
  std::string salt = "a";
  EXPECT_TRUE(namespaces.OnStored(child, DpRank{0}, salt));
  EXPECT_EQ(salt, "a");
}

TEST(CacheNamespaces, FurtherBlocksThanItsBoundAreCountedAndNotInherited) {
  CacheNamespaces namespaces;
  EngineKvStored many;
  for (std::uint64_t i = 0; i <= CacheNamespaces::kBlocksMax; ++i) {
    many.hashes.push_back(BlockHash{i});
  }
  std::string salt = "a";
  ASSERT_TRUE(namespaces.OnStored(many, DpRank{0}, salt));
  EXPECT_EQ(namespaces.overflows(), 1U);
  EngineKvStored child;
  child.parent = many.hashes.back();
  salt.clear();
  EXPECT_TRUE(namespaces.OnStored(child, DpRank{0}, salt));
  EXPECT_EQ(salt, "");
  child.parent = many.hashes.front();
  EXPECT_TRUE(namespaces.OnStored(child, DpRank{0}, salt));
  EXPECT_EQ(salt, "a");
}

}  // namespace
}  // namespace understudy::worker
