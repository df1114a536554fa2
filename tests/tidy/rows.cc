#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace understudy::tidy {
namespace {

bool IsWordPart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view WordAt(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && IsWordPart(text[end])) {
    ++end;
  }
  return text.substr(at, end - at);
}

/// The second argument of a gtest macro whose arguments begin at `at`.
std::string_view CppTestName(std::string_view text, std::size_t at) {
  const std::size_t comma = text.find(',', at);
  if (comma == std::string_view::npos) {
    return {};
  }
  const std::size_t name = text.find_first_not_of(" \n", comma + 1);
  return name == std::string_view::npos ? std::string_view() : WordAt(text, name);
}

/// Adds the rows in `name`: parts M217 (or m217) between underscores.
void AddRows(std::string_view name, std::set<int>& rows) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('_'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    const bool row = part.size() == 4 && (part[0] == 'M' || part[0] == 'm') &&
                     std::all_of(part.begin() + 1, part.end(), [](char c) {
                       return std::isdigit(static_cast<unsigned char>(c)) != 0;
                     });
    if (row) {
      rows.insert(std::stoi(std::string(part.substr(1))));
    }
  }
}

}  // namespace

std::set<int> RowsNamedByTests(const std::vector<SourceFile>& files) {
  static constexpr std::array<std::string_view, 3> kMacros = {"TEST(", "TEST_F(", "TEST_P("};
  static constexpr std::string_view kPython = "def test_";
  std::set<int> rows;
  for (const SourceFile& file : files) {
    const std::string_view text = file.text;
    if (!file.path.starts_with("tests/")) {
      continue;
    }
    if (IsCpp(file.path)) {
      for (const std::string_view macro : kMacros) {
        for (auto at = text.find(macro); at != std::string_view::npos;
             at = text.find(macro, at + macro.size())) {
          const bool starts_line = at == 0 || text[at - 1] == '\n';
          AddRows(starts_line ? CppTestName(text, at) : std::string_view(), rows);
        }
      }
    } else if (file.path.ends_with(".py")) {
      for (auto at = text.find(kPython); at != std::string_view::npos;
           at = text.find(kPython, at + kPython.size())) {
        AddRows(WordAt(text, at + kPython.size()), rows);
      }
    }
  }
  return rows;
}

}  // namespace understudy::tidy
