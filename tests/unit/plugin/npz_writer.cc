#include "tests/unit/plugin/npz_writer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <zlib.h>

#include <gtest/gtest.h>

namespace understudy::mocker {

namespace {

/// Appends `bytes` low bytes of `value`, the lowest first.
void Put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xffU);
  }
}

std::string Deflate(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  std::string in = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::uint32_t Crc(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

/// The 26 bytes that a local header and a directory record share, from the version to the lengths.
std::string CommonPart(const ZipEntry& entry, const std::string& packed) {
  std::string out;
  Put(out, 20, 2);
  Put(out, entry.flags, 2);
  Put(out, entry.deflated ? 8U : entry.method, 2);
  Put(out, 0, 4);  // time and date
  Put(out, Crc(entry.bytes), 4);
  Put(out, packed.size(), 4);
  Put(out, entry.claimed_size == 0 ? entry.bytes.size() : entry.claimed_size, 4);
  Put(out, entry.name.size(), 2);
  Put(out, 0, 2);  // extra field
  return out;
}

}  // namespace

std::string Npy(std::string_view header, std::string_view data, char version) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  Put(out, header.size(), version == 1 ? 2 : 4);
  return out.append(header).append(data);
}

std::string Npy(std::string_view shape, const std::vector<double>& values) {
  std::string data(values.size() * sizeof(double), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return Npy("{'descr': '<f8', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n",
             data);
}

std::string Zip(const std::vector<ZipEntry>& entries) {
  std::string out;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const std::string packed = entry.deflated ? Deflate(entry.bytes) : entry.bytes;
    const std::string common = CommonPart(entry, packed);
    directory += "PK\x01\x02";
    Put(directory, 20, 2);
    directory += common;
    directory.append(10, '\0');  // comment, disk, attributes
    Put(directory, out.size(), 4);
    directory += entry.name;
    out.append("PK\x03\x04").append(common).append(entry.name).append(packed);
  }
  const std::size_t begin = out.size();
  out.append(directory).append("PK\x05\x06");
  Put(out, 0, 4);  // disks
  Put(out, entries.size(), 2);
  Put(out, entries.size(), 2);
  Put(out, directory.size(), 4);
  Put(out, begin, 4);
  Put(out, 0, 2);  // comment
  return out;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = ::testing::TempDir() + "understudy-XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string ScratchFolder::Write(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

}  // namespace understudy::mocker
