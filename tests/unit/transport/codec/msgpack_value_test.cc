#include "transport/codec/msgpack_value.h"

#include "transport/codec/msgpack_writer.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::transport {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;

std::string Pack(const Json& value) {
  const auto bytes = Json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

constexpr std::uint64_t kEdges[] = {
    0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295U, 4294967296U, 18446744073709551615U};

TEST(MsgpackWriter, WritesTheSmallestForms) {
  for (const std::uint64_t number : kEdges) {
    std::string out;
    AppendMsgpackUint(out, number);
    EXPECT_EQ(out, Pack(number)) << number;
  }
  for (const std::size_t size : {0U, 1U, 15U, 16U, 31U, 32U, 255U, 256U, 65535U, 65536U}) {
    std::string text, binary, array, map;
    AppendMsgpackText(text, std::string(size, 'x'));
    EXPECT_EQ(text, Pack(std::string(size, 'x'))) << size;
    AppendMsgpackBinary(binary, std::string(size, 'x'));
    EXPECT_EQ(binary, Pack(Json::binary(std::vector<std::uint8_t>(size, 'x')))) << size;
    AppendMsgpackArray(array, size);
    const std::string packed_array = Pack(std::vector<bool>(size, true));
    EXPECT_EQ(array, packed_array.substr(0, packed_array.size() - size)) << size;
    AppendMsgpackMap(map, size);
    const std::string expected = size < 16      ? std::string(1, static_cast<char>(0x80U | size))
                                 : size < 65536 ? "\xde" + array.substr(1)
                                                : "\xdf" + array.substr(1);
    EXPECT_EQ(map, expected) << size;
  }
}

TEST(MsgpackReader, ReadsUnsignedNumbersOfEveryWidth) {
  for (const std::uint64_t number : kEdges) {
    const std::string bytes = Pack(number);
    MsgpackReader reader(bytes, 8);
    std::uint64_t got = 0;
    EXPECT_TRUE(reader.Unsigned(got)) << number;
    EXPECT_EQ(got, number);
    EXPECT_TRUE(reader.AtEnd());
  }
}

TEST(MsgpackReader, ReadsSignedAndFloatingNumbers) {
  for (const double number :
       {-1.0, -32.0, -33.0, -128.0, -129.0, -32769.0, -2147483649.0, 0.5, 1e300}) {
    const bool whole = number > -1e18 && number < 0;
    const std::string bytes = whole ? Pack(static_cast<std::int64_t>(number)) : Pack(number);
    MsgpackReader reader(bytes, 8);
    double got = 0;
    EXPECT_TRUE(reader.Number(got)) << number;
    EXPECT_EQ(got, number);
  }
  MsgpackReader reader("\xca\x3f\x33\x33\x33", 8);
  double got = 0;
  ASSERT_TRUE(reader.Number(got));
  EXPECT_FLOAT_EQ(static_cast<float>(got), 0.7F);
}

TEST(MsgpackReader, NonNegativeSignedFormsAreUnsignedToo) {
  const std::string bytes = "\xd1\x01\x00"s;
  MsgpackReader reader(bytes, 8);
  std::uint64_t got = 0;
  ASSERT_TRUE(reader.Unsigned(got));
  EXPECT_EQ(got, 256U);
}

TEST(MsgpackReader, WrongTypeIsNoBrokenInput) {
  MsgpackReader reader("\xa1x", 8);
  std::uint64_t number = 0;
  EXPECT_FALSE(reader.Unsigned(number));
  EXPECT_EQ(reader.broken(), nullptr);
}

TEST(MsgpackReader, RefusesTheUnusedTag) {
  MsgpackReader reader("\xc1", 8);
  EXPECT_FALSE(reader.Skip());
  EXPECT_NE(reader.broken(), nullptr);
}

TEST(MsgpackReader, SkipsExtensions) {
  const std::string one = "\xd4\x05\x01"s;
  const std::string sixteen = "\xd8\x05"s + std::string(16, 'x');
  const std::string sized = "\xc7\x03\x05"s + std::string(3, 'x');
  for (const std::string& bytes : {one, sixteen, sized}) {
    MsgpackReader reader(bytes, 8);
    EXPECT_TRUE(reader.Skip());
    EXPECT_TRUE(reader.AtEnd());
    MsgpackReader cut(std::string_view(bytes).substr(0, bytes.size() - 1), 8);
    EXPECT_FALSE(cut.Skip());
  }
}

Json RandomValue(std::mt19937& random, int levels) {
  switch (random() % (levels > 0 ? 9U : 7U)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return std::uint64_t{random()} << random() % 33;
    case 3:
      return -static_cast<std::int64_t>(random() >> random() % 32) - 1;
    case 4:
      return static_cast<double>(random()) / 3;
    case 5:
      return std::string(random() % 300, 'a');
    case 6:
      return Json::binary(std::vector<std::uint8_t>(random() % 300, 7));
    case 7: {
      Json array = Json::array();
      for (std::size_t i = random() % 20; i > 0; --i) {
        array.push_back(RandomValue(random, levels - 1));
      }
      return array;
    }
    default: {
      Json map = Json::object();
      for (std::size_t i = random() % 20; i > 0; --i) {
        map["key" + std::to_string(i)] = RandomValue(random, levels - 1);
      }
      return map;
    }
  }
}

class MsgpackSkip : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(MsgpackSkip, StepsOverExactlyOneValueThatAnotherLibraryWrote) {
  std::mt19937 random(GetParam());
  const std::string first = Pack(RandomValue(random, 5));
  const std::string both = first + Pack(RandomValue(random, 5));
  MsgpackReader reader(both, 64);
  ASSERT_TRUE(reader.Skip()) << reader.broken();
  EXPECT_EQ(reader.AtEnd(), false);
  ASSERT_TRUE(reader.Skip());
  EXPECT_TRUE(reader.AtEnd());
  MsgpackReader one(first, 64);
  ASSERT_TRUE(one.Skip());
  EXPECT_TRUE(one.AtEnd());
}

TEST_P(MsgpackSkip, RefusesEveryTruncation) {
  std::mt19937 random(GetParam());
  const std::string whole = Pack(RandomValue(random, 3));
  for (std::size_t size = 0; size < std::min<std::size_t>(whole.size(), 300); ++size) {
    MsgpackReader reader(std::string_view(whole).substr(0, size), 64);
    EXPECT_FALSE(reader.Skip()) << size;
    EXPECT_NE(reader.broken(), nullptr) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MsgpackSkip, ::testing::Range(0U, 50U));

}  // namespace
}  // namespace understudy::transport
