#include "transport/codec/utf8.h"

namespace understudy::transport {
namespace {

bool Between(std::string_view text, std::size_t at, unsigned low, unsigned high) {
  return at < text.size() && static_cast<std::uint8_t>(text[at]) >= low &&
         static_cast<std::uint8_t>(text[at]) <= high;
}

}  // namespace

// The ranges are those of Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF.
std::size_t Utf8CharacterBytes(std::string_view text, std::size_t at, bool& valid) {
  const auto lead = static_cast<std::uint8_t>(text[at]);
  valid = false;
  if (lead < 0xC2 || lead > 0xF4) {
    return 1;
  }
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!Between(text, at + 1, low, high)) {
    return 1;
  }
  for (std::size_t i = 2; i < bytes; ++i) {
    if (!Between(text, at + i, 0x80, 0xBF)) {
      return i;
    }
  }
  valid = true;
  return bytes;
}

std::string ToUtf8(std::string_view text) {
  if (IsAscii(text)) {
    return std::string(text);
  }
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<std::uint8_t>(text[at]) < 0x80) {
      out += text[at++];
      continue;
    }
    bool valid = false;
    const std::size_t bytes = Utf8CharacterBytes(text, at, valid);
    out += valid ? text.substr(at, bytes) : kUtf8Replacement;
    at += bytes;
  }
  return out;
}

}  // namespace understudy::transport
