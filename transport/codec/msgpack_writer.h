// Appends msgpack in the smallest form, as rmp-serde does.
#pragma once

#include "transport/codec/big_endian.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport {

inline constexpr std::size_t kMsgpackUintBytesMax = 9;

/// Writes at `to`, which has kMsgpackUintBytesMax bytes of room; gives the bytes used.
inline std::size_t StoreMsgpackUint(char* to, std::uint64_t number) {
  if (number < 0x80) {
    to[0] = static_cast<char>(number);
    return 1;
  }
  const unsigned log_width = number <= 0xff         ? 0
                             : number <= 0xffff     ? 1
                             : number <= 0xffffffff ? 2
                                                    : 3;
  const std::size_t width = std::size_t{1} << log_width;
  to[0] = static_cast<char>(0xccU + log_width);
  StoreBytes(to + 1, number, width);
  return width + 1;
}

inline void AppendMsgpackUint(std::string& out, std::uint64_t number) {
  char bytes[kMsgpackUintBytesMax];
  out.append(bytes, StoreMsgpackUint(bytes, number));
}

/// A tag with a size: `fix` holds sizes up to `fix_max` (0 = has no such form), else `narrow` +
/// 0/1/2 with 1, 2 or 4 bytes; 16 bits are the narrowest when `has_8` is false, and `narrow` is
/// then their tag.
inline void AppendMsgpackSize(std::string& out,
                              std::uint64_t size,
                              unsigned fix,
                              std::uint64_t fix_max,
                              unsigned narrow,
                              bool has_8) {
  if (fix != 0 && size <= fix_max) {
    out += static_cast<char>(fix | static_cast<unsigned>(size));
    return;
  }
  const unsigned log_width = has_8 && size <= 0xff ? 0 : size <= 0xffff ? 1 : 2;
  char bytes[5];
  bytes[0] = static_cast<char>(narrow + log_width - (has_8 ? 0U : 1U));
  StoreBytes(bytes + 1, size, std::size_t{1} << log_width);
  out.append(bytes, (std::size_t{1} << log_width) + 1);
}

inline void AppendMsgpackMap(std::string& out, std::uint64_t count) {
  AppendMsgpackSize(out, count, 0x80, 15, 0xde, false);
}
inline void AppendMsgpackArray(std::string& out, std::uint64_t count) {
  AppendMsgpackSize(out, count, 0x90, 15, 0xdc, false);
}
inline void AppendMsgpackText(std::string& out, std::string_view text) {
  AppendMsgpackSize(out, text.size(), 0xa0, 31, 0xd9, true);
  out += text;
}
inline void AppendMsgpackBinary(std::string& out, std::string_view bytes) {
  AppendMsgpackSize(out, bytes.size(), 0, 0, 0xc4, true);
  out += bytes;
}
inline void AppendMsgpackNil(std::string& out) {
  out += '\xc0';
}
inline void AppendMsgpackBool(std::string& out, bool value) {
  out += value ? '\xc3' : '\xc2';
}
inline void AppendMsgpackDouble(std::string& out, double number) {
  char bytes[9];
  bytes[0] = '\xcb';
  StoreU64(bytes + 1, std::bit_cast<std::uint64_t>(number));
  out.append(bytes, sizeof(bytes));
}

}  // namespace understudy::transport
