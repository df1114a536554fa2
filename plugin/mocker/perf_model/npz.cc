#include "plugin/mocker/perf_model/npz.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <unzip.h>
#include <utility>
#include <vector>

namespace understudy::mocker {

namespace {

constexpr uLong kStored = 0;
constexpr uLong kDeflated = 8;
constexpr uLong kEncryptedFlag = 1;
constexpr std::size_t kEntryNameBytesMax = 255;

struct ZipCloser {
  void operator()(void* zip) const { unzClose(zip); }
};
using Zip = std::unique_ptr<void, ZipCloser>;

}  // namespace

struct NpzFile::Impl {
  std::string path;
  Zip zip;
  std::map<std::string, unz64_file_pos> entries;

  [[nodiscard]] tl::unexpected<Error> Bad(const std::string& what) const {
    return Fail(Errc::kInvalidConfig, path + ": " + what);
  }
  [[nodiscard]] tl::unexpected<Error> BadArray(const std::string& array,
                                               const std::string& what) const {
    return Bad("array '" + array + "': " + what);
  }
  [[nodiscard]] Status List();
  [[nodiscard]] Result<std::string> Unpack(const std::string& array,
                                           const unz64_file_pos& position) const;
  [[nodiscard]] Result<std::string> UnpackOpened(const std::string& array, std::size_t size) const;
};

Status NpzFile::Impl::List() {
  unz_global_info64 info{};
  if (unzGetGlobalInfo64(zip.get(), &info) != UNZ_OK || info.number_entry > kNpzEntriesMax) {
    return Bad(std::to_string(info.number_entry) + " entries, at most " +
               std::to_string(kNpzEntriesMax) + " are read");
  }
  int found = info.number_entry == 0 ? UNZ_END_OF_LIST_OF_FILE : unzGoToFirstFile(zip.get());
  for (; found == UNZ_OK; found = unzGoToNextFile(zip.get())) {
    char name[kEntryNameBytesMax + 1] = {};
    unz_file_info64 entry{};
    unz64_file_pos position{};
    if (unzGetCurrentFileInfo64(zip.get(), &entry, name, sizeof(name), nullptr, 0, nullptr, 0) !=
            UNZ_OK ||
        unzGetFilePos64(zip.get(), &position) != UNZ_OK) {
      return Bad("broken zip directory");
    }
    if (entry.size_filename > kEntryNameBytesMax) {
      return Bad("an entry's name has " + std::to_string(entry.size_filename) + " bytes, limit " +
                 std::to_string(kEntryNameBytesMax));
    }
    if (!entries.emplace(name, position).second) {
      return Bad("two entries have the same name");
    }
  }
  return found == UNZ_END_OF_LIST_OF_FILE ? Status{} : Status(Bad("broken zip directory"));
}

Result<std::string> NpzFile::Impl::Unpack(const std::string& array,
                                          const unz64_file_pos& position) const {
  unz_file_info64 entry{};
  if (unzGoToFilePos64(zip.get(), &position) != UNZ_OK ||
      unzGetCurrentFileInfo64(zip.get(), &entry, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK) {
    return BadArray(array, "broken zip directory");
  }
  if ((entry.flag & kEncryptedFlag) != 0) {
    return BadArray(array, "is encrypted");
  }
  if (entry.compression_method != kStored && entry.compression_method != kDeflated) {
    return BadArray(array,
                    "compression method " + std::to_string(entry.compression_method) +
                        ", expected stored (0) or deflated (8)");
  }
  if (entry.uncompressed_size > kNpyBytesMax) {
    return BadArray(array,
                    "unpacks to " + std::to_string(entry.uncompressed_size) + " bytes, limit " +
                        std::to_string(kNpyBytesMax));
  }
  if (unzOpenCurrentFile(zip.get()) != UNZ_OK) {
    return BadArray(array, "its zip entry is broken");
  }
  auto bytes = UnpackOpened(array, static_cast<std::size_t>(entry.uncompressed_size));
  const int closed = unzCloseCurrentFile(zip.get());
  if (bytes && closed == UNZ_CRCERROR) {
    return BadArray(array, "checksum of its zip entry is wrong");
  }
  return bytes;
}

/// Never more than the size that the directory promises, whatever the entry would unpack to.
Result<std::string> NpzFile::Impl::UnpackOpened(const std::string& array, std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const int got =
        unzReadCurrentFile(zip.get(), bytes.data() + done, static_cast<unsigned>(size - done));
    if (got <= 0) {
      return BadArray(array,
                      "its zip entry breaks off after " + std::to_string(done) + " of " +
                          std::to_string(size) + " bytes");
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

NpzFile::NpzFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;
NpzFile::~NpzFile() = default;

Result<NpzFile> NpzFile::Open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return impl->Bad("no such file");
  }
  impl->zip = Zip(unzOpen64(path.c_str()));
  if (!impl->zip) {
    return impl->Bad("cannot be read as a zip file (.npz is one): unreadable, cut short or other");
  }
  UNDERSTUDY_TRY_STATUS(impl->List());
  return NpzFile(std::move(impl));
}

bool NpzFile::Has(const std::string& array) const {
  return impl_->entries.count(array + ".npy") != 0;
}

Result<NpyArray> NpzFile::Read(const std::string& array) const {
  const auto found = impl_->entries.find(array + ".npy");
  if (found == impl_->entries.end()) {
    return impl_->BadArray(array, "is missing");
  }
  UNDERSTUDY_TRY(const std::string bytes, impl_->Unpack(array, found->second));
  auto parsed = ParseNpy(bytes);
  if (!parsed) {
    return impl_->BadArray(array, parsed.error().message);
  }
  return parsed;
}

const std::string& NpzFile::path() const {
  return impl_->path;
}

}  // namespace understudy::mocker
