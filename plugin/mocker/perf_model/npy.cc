#include "plugin/mocker/perf_model/npy.h"

#include "plugin/mocker/perf_model/npy_header.h"

#include <bit>
#include <cstdint>

namespace understudy::mocker {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

std::uint64_t LoadLittleEndian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

using Convert = double (*)(std::uint64_t bits);

struct Dtype {
  std::string_view name;
  std::size_t bytes;
  Convert convert;
};

constexpr Dtype kDtypes[] = {
    {"<f8", 8, [](std::uint64_t bits) { return std::bit_cast<double>(bits); }},
    {"<f4",
     4,
     [](std::uint64_t bits) -> double {
       return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
     }},
    {"<i8",
     8,
     [](std::uint64_t bits) { return static_cast<double>(static_cast<std::int64_t>(bits)); }},
    {"<i4",
     4,
     [](std::uint64_t bits) {
       return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)));
     }},
};

/// Names in a message come from the file: only plain characters, not too many.
std::string Printable(std::string_view text) {
  constexpr std::size_t kShownMax = 40;
  std::string out;
  for (const char c : text.substr(0, kShownMax)) {
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return text.size() > kShownMax ? out + "..." : out;
}

Result<Dtype> FindDtype(const std::string& name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) {
      return dtype;
    }
  }
  return Fail(Errc::kUnsupported,
              "type '" + Printable(name) +
                  "' is not read; save it as float64 ('<f8'); '<f4', '<i8' and '<i4' are "
                  "converted");
}

/// The header's text, and what comes after it in `rest`.
Result<std::string_view> SplitHeader(std::string_view bytes, std::string_view& rest) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Fail(Errc::kMalformed, "does not begin like a .npy file");
  }
  if (bytes.size() < kMagic.size() + 2) {
    return Fail(Errc::kTruncated, "ends inside its header");
  }
  const int version = static_cast<unsigned char>(bytes[kMagic.size()]);
  if (version != 1 && version != 2) {
    return Fail(Errc::kUnsupported,
                ".npy format version " + std::to_string(version) + ", expected 1 or 2");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::string_view after = bytes.substr(kMagic.size() + 2);
  if (after.size() < length_bytes) {
    return Fail(Errc::kTruncated, "ends inside its header");
  }
  const std::uint64_t length = LoadLittleEndian(after.substr(0, length_bytes));
  if (length > kNpyHeaderBytesMax) {
    return Fail(Errc::kMalformed,
                "header of " + std::to_string(length) + " bytes, limit " +
                    std::to_string(kNpyHeaderBytesMax));
  }
  if (after.size() - length_bytes < length) {
    return Fail(Errc::kTruncated, "ends inside its header");
  }
  rest = after.substr(length_bytes + length);
  return after.substr(length_bytes, length);
}

Result<std::size_t> CountValues(const std::vector<std::size_t>& shape) {
  std::size_t count = 1;
  for (const std::size_t size : shape) {
    if (size != 0 && count > kNpyValuesMax / size) {
      return Fail(Errc::kMalformed,
                  "shape " + ShapeText(shape) + " has more than " + std::to_string(kNpyValuesMax) +
                      " values");
    }
    count *= size;
  }
  return count;
}

/// Where value number `i` in Fortran order belongs in C order.
std::size_t CIndex(std::size_t i, const std::vector<std::size_t>& shape) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (const std::size_t size : shape) {
    stride *= size;
  }
  for (const std::size_t size : shape) {
    stride /= size;
    index += i % size * stride;
    i /= size;
  }
  return index;
}

}  // namespace

Result<NpyArray> ParseNpy(std::string_view bytes) {
  std::string_view data;
  UNDERSTUDY_TRY(const std::string_view text, SplitHeader(bytes, data));
  UNDERSTUDY_TRY(const NpyHeader header, ParseNpyHeader(text));
  UNDERSTUDY_TRY(const Dtype dtype, FindDtype(header.dtype));
  UNDERSTUDY_TRY(const std::size_t count, CountValues(header.shape));
  if (data.size() != count * dtype.bytes) {
    return Fail(data.size() < count * dtype.bytes ? Errc::kTruncated : Errc::kMalformed,
                "shape " + ShapeText(header.shape) + " needs " +
                    std::to_string(count * dtype.bytes) + " bytes, " + std::to_string(data.size()) +
                    " are there");
  }
  NpyArray array{header.dtype, header.shape, std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const double value = dtype.convert(LoadLittleEndian(data.substr(i * dtype.bytes, dtype.bytes)));
    array.values[header.fortran_order ? CIndex(i, header.shape) : i] = value;
  }
  return array;
}

std::string ShapeText(const std::vector<std::size_t>& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return out + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace understudy::mocker
