// A 128-bit id with its text form.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace understudy {

struct Uuid {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

/// Lower case with hyphens, 36 characters.
[[nodiscard]] inline std::string ToText(const Uuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (int nibble = 0; nibble < 32; ++nibble) {
    if (nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20) {
      text += '-';
    }
    const std::uint64_t half = nibble < 16 ? uuid.high : uuid.low;
    text += kDigits[half >> (60 - 4 * (nibble % 16)) & 0xFU];
  }
  return text;
}

/// With hyphens, as 32 digits, in braces, or as urn:uuid:; either case. Those are the forms that
/// peers written in Rust take.
[[nodiscard]] inline std::optional<Uuid> ParseUuid(std::string_view text) {
  constexpr std::string_view kUrn = "urn:uuid:";
  if (text.starts_with(kUrn)) {
    text.remove_prefix(kUrn.size());
  } else if (text.size() == 38 && text.front() == '{' && text.back() == '}') {
    text = text.substr(1, 36);
  }
  const bool hyphens = text.size() == 36;
  if (!hyphens && text.size() != 32) {
    return std::nullopt;
  }
  Uuid uuid;
  int nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (hyphens && (i == 8 || i == 13 || i == 18 || i == 23)) {
      if (text[i] != '-') {
        return std::nullopt;
      }
      continue;
    }
    const char c = text[i];
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<std::uint64_t>(c | 0x20) - std::uint64_t{'a'} + 10;
    } else {
      return std::nullopt;
    }
    std::uint64_t& half = nibble++ < 16 ? uuid.high : uuid.low;
    half = half << 4U | digit;
  }
  return uuid;
}

}  // namespace understudy

template <>
struct std::hash<understudy::Uuid> {
  std::size_t operator()(const understudy::Uuid& uuid) const noexcept {
    return uuid.high ^ (uuid.low * 0x9E3779B97F4A7C15U);
  }
};
