#include "worker/replay/output_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace understudy::worker {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;

}  // namespace

tl::unexpected<Error> OutputFile::Failure(Errc code, int error) const {
  return Fail(
      code,
      option_ + " '" + path_ + "' cannot be written: " + std::generic_category().message(error));
}

Result<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& option,
                                                     const std::string& path) {
  std::unique_ptr<OutputFile> output(new OutputFile(option, path));
  if (path == "-") {
    output->file_ = stdout;
    return output;
  }
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::directory) {
    return output->Failure(Errc::kInvalidConfig, EISDIR);
  }
  const bool in_place =
      kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found;
  if (!in_place) {
    // A link stays a link: what it points to is replaced.
    const auto real = std::filesystem::canonical(path, ignored);
    output->target_ = ignored ? path : real.string();
    output->temporary_ = output->target_ + "." + std::to_string(::getpid()) + ".part";
  }
  output->file_ = std::fopen((in_place ? path : output->temporary_).c_str(), "we");
  if (output->file_ == nullptr) {
    return output->Failure(Errc::kInvalidConfig, errno);
  }
  std::setvbuf(output->file_, nullptr, _IOFBF, kBufferBytes);
  return output;
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) {
    std::fclose(file_);
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }
}

void OutputFile::Write(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    error_ = errno;
  }
}

Status OutputFile::Commit() {
  const bool standard = file_ == stdout;
  const int closed = standard ? std::fflush(file_) : std::fclose(file_);
  if (closed != 0 && error_ == 0) {
    error_ = errno;
  }
  file_ = nullptr;
  if (error_ == 0 && !temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    error_ = errno;
  }
  if (error_ != 0) {
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
    return Failure(Errc::kUnavailable, error_);
  }
  return {};
}

}  // namespace understudy::worker
