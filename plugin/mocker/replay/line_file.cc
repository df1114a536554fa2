#include "plugin/mocker/replay/line_file.h"

#include "understudy/mocker/replay.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace understudy::mocker {

namespace {
constexpr std::size_t kSequentialBytes = 1U << 20U;
constexpr std::size_t kRandomBytes = 1U << 14U;

std::string Reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace

LineFile::~LineFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Status LineFile::Open() {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    return Fail(Errc::kInvalidConfig, "failed to open trace file " + path_ + ": " + Reason(errno));
  }
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Fail(Errc::kInvalidConfig, "trace file " + path_ + " is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
  sequential_.bytes.resize(kSequentialBytes + kLinePadding);
  return {};
}

void LineFile::Rewind() {
  next_ = 0;
  lines_ = 0;
}

Status LineFile::Fill(Window& window, std::uint64_t from, std::size_t bytes) {
  if (window.bytes.size() < bytes + kLinePadding) {
    window.bytes.resize(bytes + kLinePadding);
  }
  // What is there already moves to the front.
  std::size_t kept = 0;
  if (from >= window.offset && from < window.offset + window.used) {
    kept = static_cast<std::size_t>(window.offset + window.used - from);
    std::memmove(window.bytes.data(), window.bytes.data() + (from - window.offset), kept);
  }
  window.offset = from;
  window.used = kept;
  bytes = std::max(bytes, kept);
  while (window.used < bytes && window.offset + window.used < size_) {
    const ssize_t got = ::pread(fd_,
                                window.bytes.data() + window.used,
                                bytes - window.used,
                                static_cast<off_t>(window.offset + window.used));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return Fail(Errc::kUnavailable,
                  "failed to read trace file " + path_ + " at byte " +
                      std::to_string(window.offset + window.used) + ": " +
                      (got == 0 ? "it became shorter" : Reason(errno)));
    }
    window.used += static_cast<std::size_t>(got);
  }
  return {};
}

Result<std::string_view> LineFile::LineIn(Window& window, std::uint64_t at) {
  std::size_t wanted = window.bytes.size() - kLinePadding;
  for (std::size_t searched = 0;;) {
    if (at >= window.offset && at < window.offset + window.used) {
      const char* const start = window.bytes.data() + (at - window.offset);
      const auto there = static_cast<std::size_t>(window.offset + window.used - at);
      const void* const end = std::memchr(start + searched, '\n', there - searched);
      const std::size_t length =
          end == nullptr ? there : static_cast<std::size_t>(static_cast<const char*>(end) - start);
      if (length > kTraceLineBytesMax) {
        return Fail(Errc::kMalformed,
                    "trace file " + path_ + ": the line at byte " + std::to_string(at) +
                        " is longer than " + std::to_string(kTraceLineBytesMax) + " bytes");
      }
      if (end != nullptr || at + there == size_) {
        return std::string_view(start, length);
      }
      searched = there;
      wanted = there < wanted ? wanted : wanted * 2;
    }
    UNDERSTUDY_TRY_STATUS(Fill(window, at, wanted));
  }
}

Result<bool> LineFile::Next(Line& line) {
  if (next_ >= size_) {
    return false;
  }
  UNDERSTUDY_TRY(line.text, LineIn(sequential_, next_));
  line.offset = next_;
  line.number = ++lines_;
  next_ += line.text.size() + 1;
  return true;
}

Result<std::string_view> LineFile::ReadAt(std::uint64_t offset) {
  if (random_.bytes.empty()) {
    random_.bytes.resize(kRandomBytes + kLinePadding);
  }
  return LineIn(random_, offset);
}

}  // namespace understudy::mocker
