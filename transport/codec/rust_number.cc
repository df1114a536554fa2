#include "transport/codec/rust_number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace understudy::transport {
namespace {

/// Shortest digits that read back as the same number, and where the point belongs: 0.digits x
/// 10^point.
struct Digits {
  std::string text;
  int point = 0;
};

Digits ShortestDigits(double positive) {
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(
          buffer.data(), buffer.data() + buffer.size(), positive, std::chars_format::scientific)
          .ptr;
  const std::string_view all(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t mark = all.find('e');
  Digits digits;
  digits.text = all.substr(0, 1);
  if (mark > 2) {
    digits.text += all.substr(2, mark - 2);
  }
  digits.point = std::atoi(std::string(all.substr(mark + 1)).c_str()) + 1;
  return digits;
}

/// `point_min` < point <= 16 is written without an exponent.
std::string Write(double number, int point_min) {
  std::string out = std::signbit(number) ? "-" : "";
  if (number == 0.0) {
    return out + "0.0";
  }
  const Digits digits = ShortestDigits(std::fabs(number));
  const int count = static_cast<int>(digits.text.size());
  if (digits.point > 0 && digits.point <= 16) {
    if (count <= digits.point) {
      return out + digits.text + std::string(static_cast<std::size_t>(digits.point - count), '0') +
             ".0";
    }
    const auto whole = static_cast<std::size_t>(digits.point);
    return out + digits.text.substr(0, whole) + "." + digits.text.substr(whole);
  }
  if (digits.point <= 0 && digits.point > point_min) {
    return out + "0." + std::string(static_cast<std::size_t>(-digits.point), '0') + digits.text;
  }
  out += digits.text.substr(0, 1);
  if (count > 1) {
    out += "." + digits.text.substr(1);
  }
  return out + "e" + std::to_string(digits.point - 1);
}

}  // namespace

std::string RustJsonNumber(double number) {
  constexpr int kPointMin = -5;
  return Write(number, kPointMin);
}

std::string RustDebugNumber(double number) {
  constexpr int kPointMin = -4;
  return Write(number, kPointMin);
}

}  // namespace understudy::transport
