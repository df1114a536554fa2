#include "transport/etcd/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace understudy::transport::etcd {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNoDigit = 0xFF;

constexpr std::array<std::uint8_t, 256> MakeDigits() {
  std::array<std::uint8_t, 256> digits{};
  for (auto& digit : digits) {
    digit = kNoDigit;
  }
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  return digits;
}
constexpr auto kDigits = MakeDigits();

}  // namespace

std::string Base64Encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text.push_back(k <= count ? kAlphabet[group >> (18 - 6 * k) & 0x3F] : '=');
    }
  }
  return text;
}

Result<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return Fail(Errc::kMalformed, "base64: length " + std::to_string(text.size()));
  }
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') {
    ++padding;
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool padded = i >= text.size() - padding;
    const std::uint8_t digit = padded ? 0 : kDigits[static_cast<std::uint8_t>(text[i])];
    if (digit == kNoDigit) {
      return Fail(Errc::kMalformed, "base64: bad byte at " + std::to_string(i));
    }
    group = group << 6 | digit;
    if (i % 4 == 3) {
      bytes.push_back(static_cast<char>(group >> 16 & 0xFF));
      bytes.push_back(static_cast<char>(group >> 8 & 0xFF));
      bytes.push_back(static_cast<char>(group & 0xFF));
      group = 0;
    }
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace understudy::transport::etcd
