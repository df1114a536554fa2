// A file that is there whole or not at all.
#pragma once

#include "understudy/base/result.h"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace understudy::worker {

/// Writes beside the path and moves the file there at the end, so that a run that fails leaves an
/// earlier report as it was. "-" is standard output; devices and pipes are written as they are.
class OutputFile {
 public:
  /// `option` is what messages call it. Errors: kInvalidConfig, what cannot be written and why.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> Open(const std::string& option,
                                                                const std::string& path);
  /// Without Commit, what was written is removed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(std::string_view text);  ///< a failure is told by Commit
  /// Once. Errors: kUnavailable, for example a full disk.
  [[nodiscard]] Status Commit();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  OutputFile(std::string option, std::string path)
      : option_(std::move(option)), path_(std::move(path)) {}
  [[nodiscard]] tl::unexpected<Error> Failure(Errc code, int error) const;

  std::string option_;
  std::string path_;
  std::string target_;     ///< what `path_` leads to
  std::string temporary_;  ///< empty = written in place
  std::FILE* file_ = nullptr;
  int error_ = 0;  ///< errno of the first write that failed
};

}  // namespace understudy::worker
