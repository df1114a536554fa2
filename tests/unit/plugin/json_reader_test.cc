#include "understudy/mocker/json_reader.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

/// What is wrong with `json` as JSON; empty when nothing is.
std::string SyntaxError(const std::string& json) {
  JsonReader reader(json);
  const bool read = reader.Skip() && reader.End();
  EXPECT_EQ(read, reader.error().empty());
  return reader.error();
}

// Texts and columns: recorded from the Python binding of dynamo-mocker 1.3.0.
TEST(JsonReader, NamesWhatIsNoJsonWithLineAndColumn) {
  EXPECT_EQ(SyntaxError(""), "EOF while parsing a value at line 1 column 0");
  EXPECT_EQ(SyntaxError(" "), "EOF while parsing a value at line 1 column 1");
  EXPECT_EQ(SyntaxError("{"), "EOF while parsing an object at line 1 column 1");
  EXPECT_EQ(SyntaxError("[1"), "EOF while parsing a list at line 1 column 2");
  EXPECT_EQ(SyntaxError("{\""), "EOF while parsing a string at line 1 column 2");
  EXPECT_EQ(SyntaxError(R"({"a":)"), "EOF while parsing a value at line 1 column 5");
  EXPECT_EQ(SyntaxError(R"({"a": 5,})"), "trailing comma at line 1 column 9");
  EXPECT_EQ(SyntaxError(R"({"a" 5})"), "expected `:` at line 1 column 6");
  EXPECT_EQ(SyntaxError(R"({a: 5})"), "key must be a string at line 1 column 2");
  EXPECT_EQ(SyntaxError(R"({"a": 5])"), "expected `,` or `}` at line 1 column 8");
  EXPECT_EQ(SyntaxError(R"([1 2])"), "expected `,` or `]` at line 1 column 4");
  EXPECT_EQ(SyntaxError("tru]"), "expected ident at line 1 column 4");
  EXPECT_EQ(SyntaxError("?"), "expected value at line 1 column 1");
  EXPECT_EQ(SyntaxError("05"), "invalid number at line 1 column 2");
  EXPECT_EQ(SyntaxError("1.}"), "invalid number at line 1 column 3");
  EXPECT_EQ(SyntaxError("-}"), "invalid number at line 1 column 2");
  EXPECT_EQ(SyntaxError("1e400"), "number out of range at line 1 column 5");
  EXPECT_EQ(SyntaxError("{} x"), "trailing characters at line 1 column 4");
  EXPECT_EQ(SyntaxError("{}\n\n  x"), "trailing characters at line 3 column 3");
  EXPECT_EQ(SyntaxError("\"a\nb\""),
            "control character (\\u0000-\\u001F) found while parsing a string at line 2 column 0");
  EXPECT_EQ(SyntaxError(R"("a\x")"), "invalid escape at line 1 column 4");
  EXPECT_EQ(SyntaxError(R"("\ud800")"), "unexpected end of hex escape at line 1 column 8");
  EXPECT_EQ(SyntaxError(R"("\ud800\u0041")"),
            "lone leading surrogate in hex escape at line 1 column 13");
  EXPECT_EQ(SyntaxError(R"({"a": [1, {"b": null, "c": [true, -2.5e-3]}]} )"), "");
}

TEST(JsonReader, RefusesBytesThatAreNoUtf8) {
  for (const std::string bytes :
       {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(SyntaxError("\"" + bytes + "\""), "invalid unicode code point at line 1 column 2");
  }
  EXPECT_EQ(SyntaxError("\"\xe2\x82\xac \xf0\x9f\x92\xa1\""), "");
}

TEST(JsonReader, BoundsTheNesting) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(SyntaxError(nested(JsonReader::kNestingMax)), "");
  EXPECT_EQ(SyntaxError(nested(JsonReader::kNestingMax + 1)),
            "recursion limit exceeded at line 1 column 128");
  EXPECT_NE(SyntaxError(std::string(1'000'000, '[')), "");
}

TEST(JsonReader, ReadsStringsWithEscapes) {
  JsonReader reader(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\udca1")");
  std::string text;
  ASSERT_TRUE(reader.Text(text)) << reader.error();
  EXPECT_EQ(text, "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa1");
}

TEST(JsonReader, TellsWholeNumbersFromOthers) {
  std::uint64_t number = 0;
  EXPECT_TRUE(JsonReader("18446744073709551615").Unsigned(number));
  EXPECT_EQ(number, 18446744073709551615U);
  const auto error = [&number](const std::string& json, std::uint64_t max) {
    JsonReader reader(json);
    EXPECT_FALSE(reader.Unsigned(number, "u16", max));
    return reader.error();
  };
  EXPECT_EQ(error("70000", 65535),
            "invalid value: integer `70000`, expected u16 at line 1 column 5");
  EXPECT_EQ(error("-1", 9), "invalid value: integer `-1`, expected u16 at line 1 column 2");
  EXPECT_EQ(error("-0", 9), "invalid type: floating point `-0.0`, expected u16 at line 1 column 2");
  EXPECT_EQ(error("1.5", 9), "invalid type: floating point `1.5`, expected u16 at line 1 column 3");
  EXPECT_EQ(error("1e3", 9),
            "invalid type: floating point `1000.0`, expected u16 at line 1 column 3");
  EXPECT_EQ(error("1e20", 9),
            "invalid type: floating point `1e+20`, expected u16 at line 1 column 4");
  EXPECT_EQ(error("1e-7", 9),
            "invalid type: floating point `1e-7`, expected u16 at line 1 column 4");
  EXPECT_EQ(error("18446744073709551616", 9),
            "invalid type: floating point `1.8446744073709552e+19`, expected u16 at line 1 column "
            "20");
  EXPECT_EQ(error("[1]", 9), "invalid type: sequence, expected u16 at line 1 column 0");
  EXPECT_EQ(error(R"("x")", 9), R"(invalid type: string "x", expected u16 at line 1 column 3)");
  EXPECT_EQ(error("null", 9), "invalid type: null, expected u16 at line 1 column 4");
}

TEST(JsonReader, NamesThePlaceOfAValue) {
  const std::string json = R"({"a": {"b": [1, "x"]}})";
  const auto error = [&json](JsonReader::Paths paths) {
    JsonReader reader(json, paths);
    std::uint64_t number = 0;
    EXPECT_FALSE(reader.Object("a map", [&](std::string_view) {
      return reader.Object("a map", [&](std::string_view) {
        return reader.Array("a list", [&] { return reader.Unsigned(number); });
      });
    }));
    return reader.error();
  };
  EXPECT_EQ(error(JsonReader::Paths::kNamed),
            R"(a.b[1]: invalid type: string "x", expected u64 at line 1 column 19)");
  EXPECT_EQ(error(JsonReader::Paths::kOmitted),
            R"(invalid type: string "x", expected u64 at line 1 column 19)");
}

TEST(JsonReader, LeavesThePositionOutWhenAsked) {
  JsonReader reader("{\n\"a\": \"x\"}", JsonReader::Paths::kNamed, JsonReader::Positions::kOmitted);
  double value = 0.0;
  EXPECT_FALSE(reader.Object("a thing", [&](std::string_view) { return reader.Real(value); }));
  EXPECT_EQ(reader.error(), "a: invalid type: string \"x\", expected f64");
}

TEST(JsonReader, GivesAValueAsItStands) {
  JsonReader reader(R"( {"a": [1, {"b": "]"}] , "c":2})");
  std::string_view raw;
  EXPECT_TRUE(reader.Object("a thing", [&](std::string_view key) {
    return key == "a" ? reader.Raw(raw) : reader.Skip();
  }));
  EXPECT_TRUE(reader.End());
  EXPECT_EQ(raw, R"([1, {"b": "]"}])");
}

TEST(JsonReader, IsAtItsEndAfterTheFirstError) {
  JsonReader reader("[1, 2]");
  bool flag = false;
  std::uint64_t number = 0;
  EXPECT_FALSE(reader.Bool(flag));
  const std::string error = reader.error();
  EXPECT_FALSE(reader.Unsigned(number));
  EXPECT_FALSE(reader.Skip());
  EXPECT_FALSE(reader.End());
  EXPECT_FALSE(reader.TakeNull());
  EXPECT_FALSE(reader.Fail("another"));
  EXPECT_EQ(reader.error(), error);
}

}  // namespace
}  // namespace understudy::mocker
