// Each rule against text that must be caught and text that must pass.
#include "tests/tidy/rules.h"

#include <gtest/gtest.h>

namespace understudy::tidy {
namespace {

const Exists kEverythingExists = [](const std::string&) { return true; };

std::size_t CountBorderFindings(const std::string& path, const std::string& include) {
  return CheckIncludes({path, "#include " + include + "\n"}, kEverythingExists).size();
}

std::string Repeat(const std::string& line, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += line;
  }
  return text;
}

struct BorderCase {
  std::string path;
  std::string include;
};

class ForbiddenInclude : public ::testing::TestWithParam<BorderCase> {};

TEST_P(ForbiddenInclude, IsCaught) {
  EXPECT_EQ(CountBorderFindings(GetParam().path, GetParam().include), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Borders,
    ForbiddenInclude,
    ::testing::Values(
        BorderCase{"plugin/mocker/core.cc", R"("understudy/transport/loop.h")"},
        BorderCase{"plugin/mocker/core.cc", R"("transport/codec/frame.h")"},
        BorderCase{"plugin/include/understudy/engine/engine.h", R"("understudy/transport/loop.h")"},
        BorderCase{"plugin/host/loader.cc", R"("worker/app.h")"},
        BorderCase{"plugin/mocker/core.cc", R"("plugin/host/loader.h")"},
        BorderCase{"plugin/mocker/core.cc", "<sys/socket.h>"},
        BorderCase{"plugin/mocker/core.cc", "<asio.hpp>"},
        BorderCase{"plugin/include/understudy/base/ids.h", R"("understudy/engine/types.h")"},
        BorderCase{"plugin/include/understudy/base/ids.h", "<fmt/format.h>"},
        BorderCase{"plugin/include/understudy/engine/types.h", R"("plugin/mocker/core.h")"},
        BorderCase{"transport/nats/link.cc", R"("understudy/engine/types.h")"},
        BorderCase{"transport/nats/link.cc", R"("plugin/mocker/core.h")"},
        BorderCase{"transport/include/understudy/transport/loop.h", R"("worker/app.h")"},
        BorderCase{"worker/app.cc", R"("tests/fakes/fake_loop.h")"},
        BorderCase{"transport/include/understudy/transport/nats.h", "<nats/nats.h>"},
        BorderCase{"worker/request_path/table.h", "<asio/io_context.hpp>"},
        BorderCase{"transport/nats/link.h", "<spdlog/spdlog.h>"},
        BorderCase{"worker/cli/options.h", "<CLI/CLI.hpp>"},
        BorderCase{"transport/codec/json.h", "<nlohmann/json.hpp>"}));

class AllowedInclude : public ::testing::TestWithParam<BorderCase> {};

TEST_P(AllowedInclude, Passes) {
  EXPECT_EQ(CountBorderFindings(GetParam().path, GetParam().include), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Borders,
    AllowedInclude,
    ::testing::Values(BorderCase{"plugin/mocker/core.cc", R"("understudy/engine/engine.h")"},
                      BorderCase{"plugin/include/understudy/base/result.h", "<tl/expected.hpp>"},
                      BorderCase{"transport/nats/link.cc", R"("understudy/base/result.h")"},
                      BorderCase{"transport/nats/link.cc", "<nats/nats.h>"},
                      BorderCase{"transport/nats/link.h", "<nats/nats.h>"},
                      BorderCase{"worker/app.cc", R"("understudy/engine/engine.h")"},
                      BorderCase{"worker/app.cc", R"("plugin/mocker/engine.h")"},
                      BorderCase{"tests/unit/plugin/core_test.cc",
                                 R"("tests/fakes/fake_sink.h")"}));

TEST(QuotedInclude, MustBeAPathFromTheRootOrAPublicHeader) {
  const Exists exists = [](const std::string& path) {
    return path == "transport/nats/link.h" ||
           path == "transport/include/understudy/transport/loop.h" ||
           path == "transport/nats/version.h.in";
  };
  const SourceFile file{"transport/nats/link.cc",
                        "#include \"transport/nats/link.h\"\n"
                        "#include \"understudy/transport/loop.h\"\n"
                        "#include \"transport/nats/version.h\"\n"
                        "#include \"link.h\"\n"
                        "#include \"../loop/asio_loop.h\"\n"};
  const auto findings = CheckIncludes(file, exists);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].line, 4U);
  EXPECT_EQ(findings[1].line, 5U);
}

TEST(SingleUse, SecondFileWithTheSlowHeaderIsCaught) {
  const SourceFile one{"worker/cli/a.cc", "#include <CLI/CLI.hpp>\n"};
  const SourceFile two{"worker/cli/b.cc", "#include <CLI/CLI.hpp>\n"};
  EXPECT_TRUE(CheckSingleUse({one}).empty());
  ASSERT_EQ(CheckSingleUse({one, two}).size(), 1U);
  EXPECT_EQ(CheckSingleUse({one, two})[0].path, "worker/cli/b.cc");
}

TEST(FileSize, OneLineOverTheLimitIsCaught) {
  EXPECT_TRUE(CheckSizes({"a.cc", Repeat("int a;\n", kFileLinesMax)}).empty());
  EXPECT_EQ(CheckSizes({"a.cc", Repeat("int a;\n", kFileLinesMax + 1)}).size(), 1U);
  EXPECT_EQ(CheckSizes({"a.py", Repeat("a = 1\n", kFileLinesMax + 1)}).size(), 1U);
}

std::string FunctionOf(const std::string& head, std::size_t lines) {
  return head + " {\n" + Repeat("  Do(\"}\");  // {\n", lines - 2) + "}\n";
}

class LongFunction : public ::testing::TestWithParam<std::string> {};

TEST_P(LongFunction, IsCaughtOneLineOverTheLimit) {
  const std::string before = "#include <x>\n/* { */\nnamespace a {\nclass B;\n";
  const std::string after = "\n}  // namespace a\n";
  const std::string fits = before + FunctionOf(GetParam(), kFunctionLinesMax) + after;
  const std::string over = before + FunctionOf(GetParam(), kFunctionLinesMax + 1) + after;
  EXPECT_TRUE(CheckSizes({"a.cc", fits}).empty());
  const auto findings = CheckSizes({"a.cc", over});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].line, 5U);
}

INSTANTIATE_TEST_SUITE_P(
    Heads,
    LongFunction,
    ::testing::Values("void F()",
                      "int F(std::vector<int> a = {1, 2}, int b = 3) noexcept",
                      "B::B(int a) : a_(a), b_{1, 2}, c_({3})",
                      "B& B::operator=(const B& other)",
                      "bool B::operator==(const B& other) const",
                      "int& B::operator[](std::size_t i)",
                      "template <class T, int N = 3> auto F(T t) -> decltype(t)",
                      "TEST(Suite, Name)",
                      "[[nodiscard]] static Result<std::unique_ptr<B>> F(std::span<const char> a)",
                      "const auto kCallback = [](int a)",
                      "const int n = 1'000; char c = '\\''; void F(const char* s = R\"(}{)\")"));

TEST(FindFunctions, CountsMembersOneByOneAndNotTheirClass) {
  const std::string text =
      "namespace a::b {\n"
      "template <class T>\n"
      "class [[nodiscard]] B final : public C<T> {\n"
      " public:\n"
      "  explicit B(int a) : a_(a) {}\n"
      "  int Get() const {\n"
      "    auto f = [&] { return a_; };\n"
      "    return f();\n"
      "  }\n\n"
      " private:\n"
      "  enum class E : int { kOne };\n"
      "  struct D {\n"
      "    int x = 0;\n"
      "    void G() {}\n"
      "  };\n"
      "  int a_{0};\n"
      "  std::array<int, 2> t_ = {1, 2};\n"
      "};\n"
      "}\n";
  const auto spans = FindFunctions(text);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].first_line, 5U);
  EXPECT_EQ(spans[1].first_line, 6U);
  EXPECT_EQ(spans[1].lines(), 4U);
  EXPECT_EQ(spans[2].first_line, 15U);
}

TEST(FindFunctions, LongTablesAndTypesAreNoFunctions) {
  const std::string rows = Repeat("    {\"a\", Make(1)},\n", kFunctionLinesMax + 5);
  EXPECT_TRUE(
      CheckSizes({"a.cc", "const std::map<int, int> kTable = {\n" + rows + "};\n"}).empty());
  EXPECT_TRUE(
      CheckSizes({"a.h", "struct A {\n" + Repeat("  int a(int);\n", 100) + "};\n"}).empty());
}

class ForbiddenWord : public ::testing::TestWithParam<std::string> {};

TEST_P(ForbiddenWord, IsCaught) {
  EXPECT_EQ(CheckWords({"docs/a.md", "fine\nsee " + GetParam() + "\n"}).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Words,
                         ForbiddenWord,
                         ::testing::Values("/wo"
                                           "rk/main/build",
                                           "\"/ro"
                                           "ot/x\"",
                                           "/opt/ve"
                                           "nvs/r13",
                                           "https://py"
                                           "pi.org/simple",
                                           "pip --trusted-ho"
                                           "st x",
                                           "iss"
                                           "ue #3",
                                           "shared/sp"
                                           "ec/wire.md"));

TEST(Rows, AreFoundInTheNamesOfTests) {
  const std::string cpp =
      "TEST(A, M201_X) {}\nTEST_F(B,\n       M202_M203_YInM204) {}\nTEST_P(C, M205) {}\n"
      "  TEST(D, M206_NotAtTheBeginningOfALine)\n// M207_InAComment\nTEST(M208_Suite, Z) {}\n";
  const std::string python = "def test_m211_a():\n    def test_b_m212(self):\ndef helper_m213():\n";
  EXPECT_EQ(RowsNamedByTests({{"tests/unit/a_test.cc", cpp},
                              {"tests/conformance/test_a.py", python},
                              {"docs/a.md", "TEST(E, M214_OutsideOfTheTests)"}}),
            (std::set<int>{201, 202, 203, 205, 211, 212}));
}

TEST(Words, OrdinaryTextPasses) {
  const std::string text =
      "v1/work/item build/root/x ${dir}/work/a shared_ptr the issue is that /api/home/x\n";
  EXPECT_TRUE(CheckWords({"docs/a.md", text}).empty());
}

TEST(Words, TheEnginesVocabularyIsCaughtInTheWires) {
  const std::string text =
      "// wakes the sched"
      "uler\n";
  EXPECT_EQ(CheckWords({"transport/nats/link.cc", text}).size(), 1U);
  EXPECT_TRUE(CheckWords({"plugin/mocker/core.cc", text}).empty());
}

}  // namespace
}  // namespace understudy::tidy
