#include "transport/etcd/base64.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::etcd {
namespace {

TEST(Base64, MatchesTheExamplesOfTheStandard) {
  // RFC 4648 section 10.
  const std::pair<const char*, const char*> kExamples[] = {{"", ""},
                                                           {"f", "Zg=="},
                                                           {"fo", "Zm8="},
                                                           {"foo", "Zm9v"},
                                                           {"foob", "Zm9vYg=="},
                                                           {"fooba", "Zm9vYmE="},
                                                           {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kExamples) {
    EXPECT_EQ(Base64Encode(bytes), text);
    const auto decoded = Base64Decode(text);
    ASSERT_TRUE(decoded) << text;
    EXPECT_EQ(*decoded, bytes);
  }
  EXPECT_EQ(Base64Encode("\xFB\xFF"), "+/8=");
}

TEST(Base64, RefusesWhatIsNotTheStandardForm) {
  for (const char* text : {"Z",
                           "Zg",
                           "Zg=",
                           "Zg===",
                           "=Zg=",
                           "Z===",
                           "====",
                           "Zm9v====",
                           "Zm 9",
                           "Zm9-",
                           "Zm9_",
                           "Zg==Zg==",
                           "Zm\n9"}) {
    const auto decoded = Base64Decode(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code, Errc::kMalformed);
  }
}

class Base64Bytes : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Base64Bytes, AnyBytesComeBack) {
  std::mt19937 random(GetParam());
  std::string bytes(random() % 100, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random() & 0xFF);
  }
  const auto decoded = Base64Decode(Base64Encode(bytes));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Base64Bytes, ::testing::Range(0U, 100U));

}  // namespace
}  // namespace understudy::transport::etcd
