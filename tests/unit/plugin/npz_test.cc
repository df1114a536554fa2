#include "plugin/mocker/perf_model/npz.h"

#include "tests/unit/plugin/npz_writer.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

const std::string kVectors = std::string(UNDERSTUDY_SOURCE_DIR) + "/tests/vectors/engine/";

std::string Header(const std::string& dtype,
                   const std::string& shape,
                   const char* order = "False") {
  return "{'descr': '" + dtype + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

/// What the parser says about `bytes`, which must not be an array.
Error Refusal(std::string_view bytes) {
  const auto array = ParseNpy(bytes);
  EXPECT_FALSE(array);
  return array ? Error{} : array.error();
}

TEST(Npy, ReadsEachNumberTypeOfBothVersions) {
  using std::string_literals::operator""s;
  const std::string f4 = "\x00\x00\xc0\x3f\x00\x00\x00\xbf"s;
  EXPECT_EQ(ParseNpy(Npy(Header("<f4", "(2,)"), f4)).value().values,
            (std::vector<double>{1.5, -0.5}));
  const std::string i4 = "\x02\x00\x00\x00\xff\xff\xff\xff"s;
  EXPECT_EQ(ParseNpy(Npy(Header("<i4", "(2,)"), i4, 2)).value().values,
            (std::vector<double>{2.0, -1.0}));
  const std::string i8 = "\xfe\xff\xff\xff\xff\xff\xff\xff"s;
  EXPECT_EQ(ParseNpy(Npy(Header("<i8", "(1,)"), i8)).value().values, (std::vector<double>{-2.0}));
  const auto f8 = ParseNpy(Npy("(2, 2)", {1.0, 2.0, 3.0, 4.5}));
  EXPECT_EQ(f8.value().values, (std::vector<double>{1.0, 2.0, 3.0, 4.5}));
  EXPECT_EQ(f8.value().shape, (std::vector<std::size_t>{2, 2}));
}

TEST(Npy, TurnsFortranOrderIntoCOrder) {
  std::string c_order = Npy("(2, 3)", {1.0, 4.0, 2.0, 5.0, 3.0, 6.0});
  const std::size_t at = c_order.find("False");
  const auto array = ParseNpy(c_order.replace(at, 5, "True "));
  EXPECT_EQ(array.value().values, (std::vector<double>{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}));
}

TEST(Npy, TakesTheHeadersThatPythonWrites) {
  const std::string data(8, '\0');
  for (const char* header : {"{\"shape\": (1L,), \"descr\": \"<f8\", \"fortran_order\": False}",
                             "{ 'descr' : '<f8' , 'fortran_order' : False , 'shape' : ( 1 , ) }",
                             "{'descr': '<f8', 'fortran_order': False, 'shape': (), }    \n"}) {
    EXPECT_TRUE(ParseNpy(Npy(header, data))) << header;
  }
}

TEST(Npy, TellsWhatIsWrongWithAHeader) {
  const std::string data(8, '\0');
  const auto text = [&data](const std::string& header) {
    return Refusal(Npy(header, data)).message;
  };
  EXPECT_EQ(text("{'descr': '<f8', 'fortran_order': False, 'shape': (1 2)}"),
            "header: expected ')' at byte 53 of 56");
  EXPECT_EQ(text("{'descr': '<f8', 'shape': (1,)}"),
            "header: descr, fortran_order and shape must all be there");
  EXPECT_EQ(
      text("{'descr': '<f8', 'descr': '<f8'}"),
      "header: expected each of descr, fortran_order and shape once, before this byte at byte "
      "25 of 32");
  EXPECT_EQ(text("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}"),
            "header: descr is a record type, expected '<f8'");
  EXPECT_EQ(text("{'descr': '<f8"), "header: expected a closing quote at byte 10 of 14");
  EXPECT_EQ(text(Header("<f8", "(1,)") + "}"),
            "header: expected nothing after the closing brace at byte 58 of 59");
  EXPECT_EQ(text(Header("<f8", "(1,)", "Maybe")),
            "header: expected True or False at byte 34 of 58");
  EXPECT_EQ(text(Header("<f8", "(-1,)")), "header: expected a number in shape at byte 51 of 59");
  EXPECT_EQ(text(Header("<f8", "(1,1,1,1,1)")), "header: shape has more than 4 dimensions");
  EXPECT_EQ(text(""), "header: expected '{' at byte 0 of 0");
}

TEST(Npy, RefusesTypesAndVersionsThatItDoesNotRead) {
  const std::string data(8, '\0');
  EXPECT_EQ(Refusal(Npy(Header(">f8", "(1,)"), data)).message,
            "type '>f8' is not read; save it as float64 ('<f8'); '<f4', '<i8' and '<i4' are "
            "converted");
  EXPECT_EQ(Refusal(Npy(Header("|O", "(1,)"), data)).code, Errc::kUnsupported);
  EXPECT_EQ(Refusal(Npy(Header("<f8", "(1,)"), data, 3)).message,
            ".npy format version 3, expected 1 or 2");
  EXPECT_EQ(Refusal("PK is no array").message, "does not begin like a .npy file");
}

TEST(Npy, RefusesShapesThatItsBytesDoNotFit) {
  EXPECT_EQ(Refusal(Npy("(3,)", {1.0, 2.0})).message, "shape (3,) needs 24 bytes, 16 are there");
  EXPECT_EQ(Refusal(Npy("(1,)", {1.0, 2.0})).message, "shape (1,) needs 8 bytes, 16 are there");
  EXPECT_EQ(Refusal(Npy("(99999999, 99999999)", {1.0})).message,
            "shape (99999999, 99999999) has more than 2097152 values");
  EXPECT_EQ(Refusal(Npy("(99999999999999999999999,)", {1.0})).code, Errc::kMalformed);
  EXPECT_EQ(Refusal(Npy("(4294967296, 4294967296, 4294967296, 4294967296)", {1.0})).code,
            Errc::kMalformed);
}

TEST(Npy, RefusesEveryCutOfAFile) {
  const std::string whole = Npy("(2, 2)", {1.0, 2.0, 3.0, 4.0});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseNpy(std::string_view(whole).substr(0, size))) << size;
  }
  EXPECT_TRUE(ParseNpy(whole));
}

TEST(Npy, RefusesAHeaderLongerThanTheLimit) {
  EXPECT_EQ(Refusal(Npy(std::string(kNpyHeaderBytesMax + 1, ' '), "")).message,
            "header of 10001 bytes, limit 10000");
}

std::string OpenRefusal(const std::string& path) {
  const auto file = NpzFile::Open(path);
  EXPECT_FALSE(file);
  return file ? "" : file.error().message;
}

/// What reading array `a` of the file at `path` says.
std::string ReadRefusal(const std::string& path) {
  auto file = NpzFile::Open(path);
  if (!file) {
    ADD_FAILURE() << file.error().message;
    return "";
  }
  const auto array = file->Read("a");
  EXPECT_FALSE(array);
  EXPECT_TRUE(array || array.error().code == Errc::kInvalidConfig);
  return array ? "" : array.error().message;
}

TEST(Npz, ReadsWhatNumpyWrote) {
  const auto stored = NpzFile::Open(kVectors + "perf_small.npz");
  EXPECT_EQ(stored.value().Read("decode_itl").value().shape, (std::vector<std::size_t>{3, 3}));
  const auto deflated = NpzFile::Open(
      kVectors + "profile_results/compressed/selected_decode_interpolation/raw_data.npz");
  EXPECT_EQ(deflated.value().Read("max_kv_tokens").value().values, (std::vector<double>{945029.0}));
  EXPECT_EQ(deflated.value().Read("z_itl").value().values.size(), 36U);
}

TEST(Npz, ReadsStoredAndDeflatedEntries) {
  const ScratchFolder scratch;
  const std::string path =
      scratch.Write("a.npz",
                    Zip({{.name = "a.npy", .bytes = Npy("(1,)", {1.0})},
                         {.name = "b.npy", .bytes = Npy("(1,)", {2.0}), .deflated = true}}));
  const auto file = NpzFile::Open(path);
  EXPECT_EQ(file.value().Read("b").value().values, (std::vector<double>{2.0}));
  EXPECT_EQ(file.value().Read("a").value().values, (std::vector<double>{1.0}));
  EXPECT_TRUE(file.value().Has("a"));
  EXPECT_FALSE(file.value().Has("a.npy"));
}

TEST(Npz, NamesFileAndArrayInEveryRefusal) {
  const ScratchFolder scratch;
  const auto read = [&scratch](const ZipEntry& entry) {
    const std::string path = scratch.Write("a.npz", Zip({entry}));
    const std::string text = ReadRefusal(path);
    EXPECT_EQ(text.substr(0, path.size()), path);
    return text.substr(std::min(text.size(), path.size()));
  };
  const std::string good = Npy("(1,)", {1.0});
  EXPECT_EQ(read({.name = "b.npy", .bytes = good}), ": array 'a': is missing");
  EXPECT_EQ(read({.name = "a.npy", .bytes = "x"}), ": array 'a': does not begin like a .npy file");
  EXPECT_EQ(read({.name = "a.npy", .bytes = good, .method = 12}),
            ": array 'a': compression method 12, expected stored (0) or deflated (8)");
  EXPECT_EQ(read({.name = "a.npy", .bytes = good, .flags = 1}), ": array 'a': is encrypted");
  EXPECT_EQ(read({.name = "a.npy", .bytes = good, .deflated = true, .claimed_size = 1000}),
            ": array 'a': its zip entry breaks off after " + std::to_string(good.size()) +
                " of 1000 bytes");
}

TEST(Npz, RefusesWhatUnpacksToMoreThanTheLimit) {
  const ScratchFolder scratch;
  const std::string zeros(kNpyBytesMax + 1, '\0');
  const std::string bomb =
      scratch.Write("a.npz", Zip({{.name = "a.npy", .bytes = zeros, .deflated = true}}));
  EXPECT_EQ(ReadRefusal(bomb),
            bomb + ": array 'a': unpacks to " + std::to_string(kNpyBytesMax + 1) +
                " bytes, limit " + std::to_string(kNpyBytesMax));
}

TEST(Npz, UnpacksNoMoreThanTheDirectoryPromises) {
  const ScratchFolder scratch;
  const std::string liar = scratch.Write("a.npz",
                                         Zip({{.name = "a.npy",
                                               .bytes = std::string(4U << 20U, '\0'),
                                               .deflated = true,
                                               .claimed_size = 100}}));
  EXPECT_NE(ReadRefusal(liar).find("array 'a': "), std::string::npos);
}

TEST(Npz, RefusesAWrongChecksum) {
  const ScratchFolder scratch;
  const std::string array = Npy("(1,)", {1.0});
  std::string zip = Zip({{.name = "a.npy", .bytes = array}});
  zip[zip.find(array) + array.size() - 1] ^= 1;
  const std::string path = scratch.Write("a.npz", zip);
  EXPECT_EQ(ReadRefusal(path), path + ": array 'a': checksum of its zip entry is wrong");
}

TEST(Npz, RefusesWhatIsNoUsableZip) {
  const ScratchFolder scratch;
  const std::string zip = Zip({{.name = "a.npy", .bytes = Npy("(1,)", {1.0})}});
  EXPECT_EQ(OpenRefusal(scratch.path() + "/none.npz"), scratch.path() + "/none.npz: no such file");
  EXPECT_EQ(OpenRefusal(scratch.path()), scratch.path() + ": no such file");
  const std::string cut = scratch.Write("cut.npz", zip.substr(0, zip.size() - 30));
  EXPECT_EQ(OpenRefusal(cut),
            cut + ": cannot be read as a zip file (.npz is one): unreadable, cut short or other");
  const std::string twice = scratch.Write(
      "twice.npz", Zip({{.name = "a.npy", .bytes = "1"}, {.name = "a.npy", .bytes = "2"}}));
  EXPECT_EQ(OpenRefusal(twice), twice + ": two entries have the same name");
  std::vector<ZipEntry> many;
  for (std::size_t i = 0; i <= kNpzEntriesMax; ++i) {
    many.push_back({.name = std::to_string(i) + ".npy"});
  }
  const std::string full = scratch.Write("full.npz", Zip(many));
  EXPECT_EQ(OpenRefusal(full), full + ": 65 entries, at most 64 are read");
}

class NpzDamage : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(NpzDamage, NeverGivesOtherNumbersThanThoseWritten) {
  std::mt19937 random(GetParam());
  const ScratchFolder scratch;
  const std::vector<double> numbers{1.0, 2.0, 3.0};
  const std::string zip = Zip({{.name = "a.npy", .bytes = Npy("(3,)", numbers), .deflated = true},
                               {.name = "b.npy", .bytes = Npy("(1,)", {4.0})}});
  for (int round = 0; round < 30; ++round) {
    std::string damaged = zip;
    for (std::uint32_t i = 0; i <= random() % 3; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random() & 0xffU);
    }
    const auto file = NpzFile::Open(scratch.Write("a.npz", damaged));
    if (!file) {
      continue;
    }
    if (const auto array = file->Read("a"); array) {
      EXPECT_EQ(array->values, numbers);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, NpzDamage, ::testing::Range(0U, 10U));

}  // namespace
}  // namespace understudy::mocker
