#include "transport/file/file_store.h"

#include "transport/file/key_names.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace understudy::transport::file {
namespace {

constexpr int kLockTries = 100;
constexpr auto kLockStep = std::chrono::milliseconds(10);
constexpr std::string_view kTempPrefix = ".tmp_";
constexpr ::mode_t kFolderMode = 0755;
constexpr ::mode_t kFileMode = 0644;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }
  /// The error of writes that a network file system held back shows here.
  [[nodiscard]] bool Close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

tl::unexpected<Error> Failure(const std::string& what, const std::string& path, int error) {
  return Fail(Errc::kUnavailable,
              "file discovery: cannot " + what + " " + path + ": " + std::strerror(error) +
                  " (errno " + std::to_string(error) + ")");
}

/// 1.6 takes an exclusive lock on the bucket's folder for each change. A file system without locks,
/// or a peer that holds it for a second, doesn't stop us: 1.3 knows no lock, and every single step
/// is atomic by itself.
class BucketLock {
 public:
  explicit BucketLock(const std::string& folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int i = 0; fd_.ok() && i < kLockTries; ++i) {
      if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        return;
      }
      std::this_thread::sleep_for(kLockStep);
    }
  }

 private:
  Fd fd_;  // closing it unlocks
};

std::string TempName() {
  static constexpr char kDigits[] = "0123456789abcdef";
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::string name(kTempPrefix);
  for (auto [bits, i] = std::pair(random(), 0); i < 16; ++i, bits >>= 4) {
    name.push_back(kDigits[bits & 0xF]);
  }
  return name;
}

Nanoseconds Age(const struct stat& info) {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::seconds(now.tv_sec - info.st_mtim.tv_sec) +
         Nanoseconds(now.tv_nsec - info.st_mtim.tv_nsec);
}

/// 0 or errno.
int WriteWhole(const std::string& path, const std::string& text) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
  if (!fd.ok()) {
    return errno;
  }
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t size = ::write(fd.get(), text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) {
      return errno;
    }
    done += size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  return fd.Close() ? 0 : errno;
}

/// False when the file is gone, unreadable or too long: readers skip it.
bool ReadWhole(const std::string& path, std::string& text) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char bytes[8192];
  text.clear();
  while (fd.ok()) {
    const ssize_t size = ::read(fd.get(), bytes, sizeof(bytes));
    if (size == 0) {
      return true;
    }
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0 || text.size() + static_cast<std::size_t>(size) > FileStore::kRecordBytesMax) {
      return false;
    }
    text.append(bytes, static_cast<std::size_t>(size));
  }
  return false;
}

struct DirClose {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// Names in `folder`; a missing folder is an empty one.
Result<std::vector<std::string>> Names(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, DirClose> dir(::opendir(folder.c_str()));
  if (dir == nullptr) {
    if (errno == ENOENT) {
      return names;
    }
    return Failure("read folder", folder, errno);
  }
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && names.size() < FileStore::kRecordsMax) {
      names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsTemp(const std::string& name) {
  return name.rfind(kTempPrefix, 0) == 0;
}

}  // namespace

Status FileStore::MakeFolders(const std::string& path) const {
  for (auto end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info {};
      // A read-only file system says so even where the folder exists.
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        return Failure("make folder", part, error);
      }
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

Status FileStore::Prepare() const {
  if (root_.empty()) {
    return Fail(Errc::kInvalidConfig, "file discovery: no folder is set");
  }
  UNDERSTUDY_TRY_STATUS(MakeFolders(root_));
  struct stat info {};
  if (::stat(root_.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return Failure("use", root_, ENOTDIR);
  }
  if (::access(root_.c_str(), R_OK | W_OK | X_OK) != 0) {
    return Failure("write to folder", root_, errno);
  }
  return {};
}

Result<FileStore::Outcome> FileStore::Create(const Record& record) const {
  UNDERSTUDY_TRY(const KeyPlace place, PlaceOf(record.key));
  const std::string folder = root_ + "/" + place.bucket;
  UNDERSTUDY_TRY_STATUS(MakeFolders(folder));
  const BucketLock lock(folder);
  const std::string path = folder + "/" + place.name;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (Age(info) <= ttl_) {
      return Outcome::kExists;
    }
    ::unlink(path.c_str());
  }
  const std::string temp = folder + "/" + TempName();
  int error = WriteWhole(temp, record.value);
  if (error != 0) {
    ::unlink(temp.c_str());
    return Failure("write", path, error);
  }
  error = ::link(temp.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(temp.c_str());
  if (error == EEXIST) {
    return Outcome::kExists;
  }
  if (error != 0) {
    return Failure("publish", path, error);
  }
  return Outcome::kCreated;
}

Result<FileStore::Presence> FileStore::Touch(const std::string& key) const {
  UNDERSTUDY_TRY(const KeyPlace place, PlaceOf(key));
  const std::string path = root_ + "/" + place.bucket + "/" + place.name;
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0) {
    return Presence::kThere;
  }
  if (errno == ENOENT) {
    return Presence::kMissing;
  }
  return Failure("touch", path, errno);
}

Result<FileStore::Presence> FileStore::Look(const std::string& key) const {
  UNDERSTUDY_TRY(const KeyPlace place, PlaceOf(key));
  const std::string path = root_ + "/" + place.bucket + "/" + place.name;
  return ::access(path.c_str(), F_OK) == 0 ? Presence::kThere : Presence::kMissing;
}

Status FileStore::Remove(const std::string& key) const {
  UNDERSTUDY_TRY(const KeyPlace place, PlaceOf(key));
  const std::string folder = root_ + "/" + place.bucket;
  const BucketLock lock(folder);
  const std::string path = folder + "/" + place.name;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failure("delete", path, errno);
  }
  return {};
}

/// `records` null: only cleans up.
Status FileStore::ReadBucket(const std::string& bucket,
                             const std::string& prefix,
                             std::vector<Record>* records) const {
  const std::string folder = root_ + "/" + bucket;
  UNDERSTUDY_TRY(const std::vector<std::string> names, Names(folder));
  std::vector<std::string> expired;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    if (Age(info) > (IsTemp(name) ? kTempAgeMax : ttl_)) {
      expired.push_back(path);
      continue;
    }
    const auto rest = UnescapeName(name);
    if (records == nullptr || IsTemp(name) || !rest) {
      continue;
    }
    Record record{bucket + "/" + *rest, {}};
    if (record.key.rfind(prefix, 0) == 0 && ReadWhole(path, record.value)) {
      records->push_back(std::move(record));
    }
  }
  if (!expired.empty()) {
    const BucketLock lock(folder);
    for (const std::string& path : expired) {
      struct stat info {};
      // Its owner may have touched it since; what still slips between these two steps its owner
      // puts back.
      if (::lstat(path.c_str(), &info) == 0 && Age(info) > ttl_) {
        ::unlink(path.c_str());
      }
    }
  }
  return {};
}

Result<std::vector<Record>> FileStore::List(const std::string& prefix) const {
  std::vector<Record> records;
  const auto first = prefix.find('/');
  const auto second = first == std::string::npos ? first : prefix.find('/', first + 1);
  if (second != std::string::npos) {
    UNDERSTUDY_TRY_STATUS(ReadBucket(prefix.substr(0, second), prefix, &records));
    return records;
  }
  UNDERSTUDY_TRY(const std::vector<std::string> versions, Names(root_));
  for (const std::string& version : versions) {
    const auto buckets = Names(root_ + "/" + version);
    if (!buckets) {
      continue;  // not a folder of ours
    }
    for (const std::string& bucket : *buckets) {
      const std::string path = version + "/" + bucket;
      if (path.compare(0, prefix.size(), prefix) == 0 && !IsTemp(bucket)) {
        static_cast<void>(ReadBucket(path, prefix, &records));
      }
    }
  }
  return records;
}

void FileStore::Expire(const std::string& key) const {
  if (const auto place = PlaceOf(key)) {
    static_cast<void>(ReadBucket(place->bucket, {}, nullptr));
  }
}

}  // namespace understudy::transport::file
