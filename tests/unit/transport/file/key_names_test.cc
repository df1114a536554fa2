#include "transport/file/key_names.h"

#include <random>

#include <gtest/gtest.h>

namespace understudy::transport::file {
namespace {

TEST(KeyNames, EscapesEverythingButLettersAndDigitsInUpperHex) {
  // The first two as the reference wrote them (wire.md 2.6).
  EXPECT_EQ(EscapeName("dynamo/backend/generate/8d6d8a21f69b3ebf"),
            "dynamo%2Fbackend%2Fgenerate%2F8d6d8a21f69b3ebf");
  EXPECT_EQ(EscapeName("dynamo//kv_metrics"), "dynamo%2F%2Fkv%5Fmetrics");
  EXPECT_EQ(EscapeName("a-b.c~d"), "a%2Db%2Ec%7Ed");
  EXPECT_EQ(EscapeName("\xC3\xA9%"), "%C3%A9%25");
}

TEST(KeyNames, SplitsAKeyIntoFolderAndFile) {
  const auto place = PlaceOf("v1/mdc/ns/c/e/12ab");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->bucket, "v1/mdc");
  EXPECT_EQ(place->name, "ns%2Fc%2Fe%2F12ab");
}

TEST(KeyNames, ANameAsLongAsAFileNameMayBeIsTaken) {
  EXPECT_TRUE(PlaceOf("v1/x/" + std::string(255, 'a')));
  EXPECT_FALSE(PlaceOf("v1/x/" + std::string(256, 'a')));
}

TEST(KeyNames, BrokenEscapesAreRefused) {
  for (const char* name : {"%", "a%2", "%zz", "%2", "%%41"}) {
    EXPECT_FALSE(UnescapeName(name)) << name;
  }
}

class AnyName : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(AnyName, ComesBackAndHoldsNoSlash) {
  std::mt19937 random(GetParam());
  std::string text(random() % 60, '\0');
  for (char& byte : text) {
    byte = static_cast<char>(random() & 0xFF);
  }
  const std::string name = EscapeName(text);
  EXPECT_EQ(name.find('/'), std::string::npos);
  const auto back = UnescapeName(name);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, text);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyName, ::testing::Range(0U, 100U));

}  // namespace
}  // namespace understudy::transport::file
