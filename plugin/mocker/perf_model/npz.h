// NumPy's .npz: a zip file of .npy arrays.
#pragma once

#include "plugin/mocker/perf_model/npy.h"
#include "understudy/base/result.h"

#include <cstddef>
#include <memory>
#include <string>

namespace understudy::mocker {

/// A profile has five arrays, a latency table seven; what comes from a profiler may hold more.
inline constexpr std::size_t kNpzEntriesMax = 64;

/// An open .npz file. Entries may be stored or deflated; none may unpack to more than kNpyBytesMax,
/// and none is unpacked before it is asked for. Not thread-safe; used at start only.
class NpzFile {
 public:
  /// Errors: kInvalidConfig with the file and what is wrong: no regular file, no zip, more than
  /// kNpzEntriesMax entries, two entries of one name.
  [[nodiscard]] static Result<NpzFile> Open(const std::string& path);
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;
  ~NpzFile();

  [[nodiscard]] bool Has(const std::string& array) const;
  /// Errors: kInvalidConfig with file, array and what is wrong.
  [[nodiscard]] Result<NpyArray> Read(const std::string& array) const;

  [[nodiscard]] const std::string& path() const;

 private:
  struct Impl;
  explicit NpzFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace understudy::mocker
