// Makes .npz files for tests, right ones and broken ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// A .npy file: magic, version, header length, header and `data`.
[[nodiscard]] std::string Npy(std::string_view header, std::string_view data, char version = 1);

/// A float64 array in C order. `shape` as Python writes it: "(3,)".
[[nodiscard]] std::string Npy(std::string_view shape, const std::vector<double>& values);

struct ZipEntry {
  std::string name{};
  std::string bytes{};
  bool deflated = false;
  std::uint16_t method = 0;        ///< written when it is neither stored nor deflated
  std::uint64_t claimed_size = 0;  ///< unpacked size to write instead of the true one; 0 = true
  std::uint16_t flags = 0;
};

/// A zip file of `entries`.
[[nodiscard]] std::string Zip(const std::vector<ZipEntry>& entries);

/// A folder of the test's own, gone at its end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a file, `name` may have folders, and gives its path.
  [[nodiscard]] std::string Write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace understudy::mocker
