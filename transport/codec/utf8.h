// Texts that go to a peer are UTF-8, whatever they were made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace understudy::transport {

inline constexpr std::string_view kUtf8Replacement = "\xEF\xBF\xBD";  // U+FFFD

/// No byte has its highest bit: true of nearly every text, and found out faster than the rest.
[[nodiscard]] inline bool IsAscii(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080'8080'8080'8080U;
  std::uint64_t seen = 0;
  std::size_t at = 0;
  for (; at + sizeof(seen) <= text.size(); at += sizeof(seen)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof(word));
    seen |= word;
  }
  for (; at < text.size(); ++at) {
    seen |= static_cast<std::uint8_t>(text[at]);
  }
  return (seen & kHighBits) == 0;
}

/// Bytes of the character that begins at `at` with a byte >= 0x80. When `valid` comes back false,
/// of its bad part.
[[nodiscard]] std::size_t Utf8CharacterBytes(std::string_view text, std::size_t at, bool& valid);

/// `text` with every bad part replaced by U+FFFD.
[[nodiscard]] std::string ToUtf8(std::string_view text);

}  // namespace understudy::transport
