// One array in NumPy's .npy format: bytes to numbers.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

inline constexpr std::size_t kNpyHeaderBytesMax = 10000;  ///< NumPy's own limit
inline constexpr std::size_t kNpyDimensionsMax = 4;
inline constexpr std::size_t kNpyValuesMax = std::size_t{1} << 21U;
/// Largest .npy file that can be of use: header and values.
inline constexpr std::size_t kNpyBytesMax = kNpyHeaderBytesMax + 12 + kNpyValuesMax * 8;

struct NpyArray {
  std::string dtype;  ///< as in the file: "<f8", "<f4", "<i8" or "<i4"
  std::vector<std::size_t> shape;
  std::vector<double> values;  ///< in C order (the last index runs fastest), whatever the file has
};

/// Parses a .npy file of version 1 or 2: little-endian f8, f4, i8 or i4, in C or Fortran order.
/// Errors: kTruncated when the bytes end before the array does, kUnsupported for versions and types
/// that are not read, kMalformed for anything else; the text says where and what. Pure, any thread.
/// Source: NumPy's description of the format ("NEP 1").
[[nodiscard]] Result<NpyArray> ParseNpy(std::string_view bytes);

/// "(3, 4)", as NumPy writes it.
[[nodiscard]] std::string ShapeText(const std::vector<std::size_t>& shape);

}  // namespace understudy::mocker
