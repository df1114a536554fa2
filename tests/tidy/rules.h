// The checks of the source tree: knowledge borders, sizes and words. Pure functions over text, so
// that fixtures can prove that each of them catches what it is for.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::tidy {

inline constexpr std::size_t kFileLinesMax = 600;
inline constexpr std::size_t kFunctionLinesMax = 70;

/// One file of the tree. `path` is relative to the root, with forward slashes.
struct SourceFile {
  std::string path;
  std::string text;
};

/// `line` counts from 1; 0 means the whole file.
struct Finding {
  std::string path;
  std::size_t line = 0;
  std::string message;
};

/// A function body found by its braces; lines count from 1, from the first line of its head.
struct FunctionSpan {
  std::string head;
  std::size_t first_line = 0;
  std::size_t last_line = 0;
  [[nodiscard]] std::size_t lines() const { return last_line - first_line + 1; }
};

/// True for C and C++ sources and headers.
[[nodiscard]] bool IsCpp(std::string_view path);
[[nodiscard]] bool IsHeader(std::string_view path);

/// Comments, literals and preprocessor lines blanked with spaces; line breaks stay where they were.
[[nodiscard]] std::string BlankNonCode(std::string_view text);

/// The functions of C++ text laid out by our clang-format file. Lambdas count to the function
/// around them.
[[nodiscard]] std::vector<FunctionSpan> FindFunctions(std::string_view text);

/// Tells whether a path relative to the root exists; a parameter, so that fixtures need no files.
using Exists = std::function<bool(const std::string&)>;

/// The borders of the folders (who may include what), where heavy third-party headers may appear,
/// and that every quoted include is a path from the source root or a public prefix.
[[nodiscard]] std::vector<Finding> CheckIncludes(const SourceFile& file, const Exists& exists);
/// A file over kFileLinesMax lines, a function over kFunctionLinesMax.
[[nodiscard]] std::vector<Finding> CheckSizes(const SourceFile& file);
/// Paths of one machine, hosts of package mirrors, notes about how the project is worked on; and
/// words of one layer that must not occur in another.
[[nodiscard]] std::vector<Finding> CheckWords(const SourceFile& file);
/// A header that more than one file includes although one is allowed: it is slow to compile.
[[nodiscard]] std::vector<Finding> CheckSingleUse(const std::vector<SourceFile>& files);

/// Numbers of the rows of the mission's checklist that a test proves by its name: a part like M217
/// between underscores, in Python also m217.
[[nodiscard]] std::set<int> RowsNamedByTests(const std::vector<SourceFile>& files);

/// `text` cut at line breaks, without them.
[[nodiscard]] std::vector<std::string_view> Lines(std::string_view text);

}  // namespace understudy::tidy
