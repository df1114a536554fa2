// A text file read line by line, in order or at known places.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// Bytes behind a line that a JSON parser may read (not use).
inline constexpr std::size_t kLinePadding = 64;

struct Line {
  std::string_view text;  ///< without its end; kLinePadding bytes behind it are readable
  std::uint64_t offset = 0;
  std::uint64_t number = 0;  ///< from 1
};

/// Memory: one buffer that grows to the longest line. A view is valid until the next call. Errors
/// name the file; kMalformed for a line of more than kTraceLineBytesMax. Not thread safe.
class LineFile {
 public:
  explicit LineFile(std::string path) : path_(std::move(path)) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Errors: kInvalidConfig when it cannot be opened or is no regular file.
  [[nodiscard]] Status Open();
  /// The next line. False: there is none.
  [[nodiscard]] Result<bool> Next(Line& line);
  /// The line that starts at `offset`; the order of Next is not changed.
  [[nodiscard]] Result<std::string_view> ReadAt(std::uint64_t offset);
  /// Next starts over.
  void Rewind();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  /// A part of the file: bytes [offset, offset + used).
  struct Window {
    std::vector<char> bytes;  ///< kLinePadding more than may be used
    std::uint64_t offset = 0;
    std::size_t used = 0;
  };

  /// The line at `at` of the window's part, which is moved and grown until the line is in it.
  Result<std::string_view> LineIn(Window& window, std::uint64_t at);
  Status Fill(Window& window, std::uint64_t from, std::size_t bytes);

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t lines_ = 0;
  Window sequential_;
  Window random_;
};

}  // namespace understudy::mocker
