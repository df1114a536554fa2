#include "transport/codec/json_writer.h"
#include "transport/codec/utf8.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using namespace std::string_literals;

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

TEST(JsonText, EscapesWhatJsonForbids) {
  EXPECT_EQ(Quoted("a\"b\\c\b\f\n\r\t\x01\x1f"s), R"("a\"b\\c\b\f\n\r\t\u0001\u001f")");
  EXPECT_EQ(Quoted("\0"s), R"("\u0000")");
  EXPECT_EQ(Quoted("/\x7f"), "\"/\x7f\"");
}

TEST(JsonText, KeepsUtf8) {
  const std::string text = "\xd0\xbb\xd1\x96 \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(Quoted(text), "\"" + text + "\"");
}

TEST(JsonText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(ToUtf8("a\xff"
                   "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(ToUtf8("\xe2\x82"), "\xEF\xBF\xBD");                              // cut short
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(ToUtf8("\xc0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80").substr(0, 3), "\xEF\xBF\xBD");         // above U+10FFFF
}

TEST(IsAscii, SeesAHighBitWhereverItIs) {
  EXPECT_TRUE(IsAscii(""));
  for (std::size_t size = 1; size <= 20; ++size) {
    const std::string plain(size, '\x7f');
    EXPECT_TRUE(IsAscii(plain)) << size;
    for (std::size_t at = 0; at < size; ++at) {
      std::string other = plain;
      other[at] = '\x80';
      EXPECT_FALSE(IsAscii(other)) << size << " " << at;
    }
  }
}

TEST(JsonText, AgreesWithAnotherLibraryOnEveryByteAndPair) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string text = {'x', static_cast<char>(first), static_cast<char>(second), 'y'};
      const auto replace = nlohmann::json::error_handler_t::replace;
      const std::string expected = nlohmann::json(text).dump(-1, ' ', false, replace);
      ASSERT_EQ(Quoted(text), expected) << first << ' ' << second;
    }
  }
}

TEST(JsonWriter, PlacesCommas) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Number(1).Null().BeginObject().EndObject().EndArray();
  json.Key("b").Bool(true).Key("c").Text("x").EndObject();
  EXPECT_EQ(json.Take(), R"({"a":[1,null,{}],"b":true,"c":"x"})");
}

}  // namespace
}  // namespace understudy::transport
