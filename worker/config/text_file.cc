#include "worker/config/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

namespace understudy::worker {

Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max) {
  const auto failed = [] {
    return Fail(Errc::kInvalidConfig,
                "cannot be read: " + std::error_code(errno, std::generic_category()).message());
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    return failed();
  }
  std::array<char, 16'384> buffer{};
  std::string content;
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    if (content.size() + count > bytes_max) {
      return Fail(Errc::kInvalidConfig, "has more than " + std::to_string(bytes_max) + " bytes");
    }
    content.append(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) {
    return failed();
  }
  return content;
}

}  // namespace understudy::worker
