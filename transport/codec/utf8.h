// Texts that go to a peer are UTF-8, whatever they were made from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace understudy::transport {

inline constexpr std::string_view kUtf8Replacement = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the character that begins at `at` with a byte >= 0x80. When `valid` comes back false,
/// of its bad part.
[[nodiscard]] std::size_t Utf8CharacterBytes(std::string_view text, std::size_t at, bool& valid);

/// `text` with every bad part replaced by U+FFFD.
[[nodiscard]] std::string ToUtf8(std::string_view text);

}  // namespace understudy::transport
