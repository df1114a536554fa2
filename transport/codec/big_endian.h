// Numbers in network byte order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy::transport {

inline std::uint64_t LoadU64(const char* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8U | static_cast<std::uint8_t>(from[i]);
  }
  return value;
}

/// The lowest `width` bytes of `value`, highest first.
inline void StoreBytes(char* to, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    to[i] = static_cast<char>(value >> (8U * (width - 1 - i)) & 0xffU);
  }
}
inline void StoreU64(char* to, std::uint64_t value) {
  StoreBytes(to, value, 8);
}

}  // namespace understudy::transport
