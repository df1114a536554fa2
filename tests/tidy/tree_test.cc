// The rules over the project itself.
#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace understudy::tidy {
namespace {

namespace fs = std::filesystem;

const fs::path& Root() {
  static const fs::path kRoot(UNDERSTUDY_SOURCE_DIR);
  return kRoot;
}

/// Folders that hold no source of ours: results, recordings, environments.
bool IsSkipped(const fs::path& relative) {
  static constexpr std::array kSkipped = {"build", ".git", "__pycache__", ".pytest_cache"};
  const std::string name = relative.filename().string();
  return std::find(kSkipped.begin(), kSkipped.end(), name) != kSkipped.end() ||
         name.rfind(".venv", 0) == 0 || relative == "tests/vectors" || relative == "tests/data" ||
         relative == "tests/conformance/recorded" || relative.parent_path() == "tests/fuzz/corpus";
}

bool IsSource(const fs::path& path) {
  static constexpr std::array kExtensions = {".h",
                                             ".cc",
                                             ".cmake",
                                             ".py",
                                             ".sh",
                                             ".md",
                                             ".txt",
                                             ".yaml",
                                             ".yml",
                                             ".toml",
                                             ".json",
                                             ".Dockerfile"};
  const std::string extension = path.extension().string();
  if (std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end()) {
    return true;
  }
  return extension.empty() || path.filename().string().rfind("Dockerfile", 0) == 0;
}

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<SourceFile> LoadTree() {
  std::vector<SourceFile> files;
  for (fs::recursive_directory_iterator it(Root()), end; it != end; ++it) {
    const fs::path relative = it->path().lexically_relative(Root());
    if (IsSkipped(relative)) {  // .git is a file in a second work tree
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && IsSource(relative)) {
      files.push_back({relative.generic_string(), ReadText(it->path())});
    }
  }
  std::sort(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> kTree = LoadTree();
  return kTree;
}

void Report(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    ADD_FAILURE_AT(finding.path.c_str(), static_cast<int>(finding.line)) << finding.message;
  }
}

TEST(SourceTree, IsFound) {
  const auto cpp = std::count_if(
      Tree().begin(), Tree().end(), [](const SourceFile& file) { return IsCpp(file.path); });
  EXPECT_GT(cpp, 20);
}

TEST(SourceTree, KeepsItsBorders) {
  for (const SourceFile& file : Tree()) {
    Report(CheckIncludes(file, [](const std::string& path) { return fs::exists(Root() / path); }));
  }
  Report(CheckSingleUse(Tree()));
}

TEST(SourceTree, KeepsItsSizes) {
  for (const SourceFile& file : Tree()) {
    Report(CheckSizes(file));
  }
}

TEST(SourceTree, NamesNoMachineAndNoMirror) {
  for (const SourceFile& file : Tree()) {
    Report(CheckWords(file));
  }
}

/// Events and load, hand-offs and live control: what the reference does there is a checklist, row
/// by row.
TEST(SourceTree, ProvesEveryRowOfEventsAndHandoffs) {
  constexpr std::pair<int, int> kRanges[] = {{26, 42}, {132, 258}};
  const std::set<int> rows = RowsNamedByTests(Tree());
  for (const auto& [first, last] : kRanges) {
    for (int row = first; row <= last; ++row) {
      EXPECT_TRUE(rows.contains(row)) << "M-" << row;
    }
  }
}

}  // namespace
}  // namespace understudy::tidy
