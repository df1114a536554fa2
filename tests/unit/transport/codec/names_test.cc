#include "understudy/transport/records.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

TEST(HexId, IsLowerCaseWithoutLeadingZeros) {
  EXPECT_EQ(HexId(0), "0");
  EXPECT_EQ(HexId(0xf050a851dbe485b), "f050a851dbe485b");
  EXPECT_EQ(HexId(~std::uint64_t{0}), "ffffffffffffffff");
}

TEST(Slug, IsLowerCaseOfAFewCharacters) {
  EXPECT_EQ(Slugify("tiny"), "tiny");
  EXPECT_EQ(Slugify("Qwen/Qwen3-0.6B"), "qwen_qwen3-0_6b");
  EXPECT_EQ(Slugify("__/a_b"), "a_b");
  EXPECT_EQ(Slugify("___"), "");
  EXPECT_EQ(Slugify(""), "");
}

TEST(EndpointName, ReadsThreePartsWithAndWithoutPrefix) {
  for (const char* text : {"dyn://ns-1.back_end.generate", "ns-1.back_end.generate"}) {
    const auto name = ParseEndpointName(text);
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->ns, "ns-1");
    EXPECT_EQ(name->component, "back_end");
    EXPECT_EQ(name->endpoint, "generate");
    EXPECT_EQ(name->Dotted(), "ns-1.back_end.generate");
  }
}

TEST(EndpointName, RefusesOtherForms) {
  for (const char* text : {"foo", "", "dyn://", "a.b", "a.b.c.d", "a..c", ".b.c", "a.b."}) {
    const auto name = ParseEndpointName(text);
    ASSERT_FALSE(name.has_value()) << text;
    EXPECT_EQ(name.error().code, Errc::kInvalidConfig);
    EXPECT_EQ(name.error().message, "Invalid in= option '" + std::string(text) + "'");
  }
}

TEST(EndpointName, NamesThePartWithBadCharacters) {
  EXPECT_EQ(ParseEndpointName("Ns.b.c").error().message,
            "namespace 'Ns' has characters outside a-z 0-9 - _");
  EXPECT_EQ(ParseEndpointName("a.b c.d").error().message,
            "component 'b c' has characters outside a-z 0-9 - _");
  EXPECT_EQ(ParseEndpointName("a.b.*").error().message,
            "endpoint '*' has characters outside a-z 0-9 - _");
}

}  // namespace
}  // namespace understudy::transport
