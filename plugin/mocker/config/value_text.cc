#include "plugin/mocker/config/value_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace understudy::mocker {

namespace {

/// value = 0.<digits> * 10^point
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

Decimal ShortestDecimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  Decimal out;
  const char* exponent = end.ptr;
  for (const char* at = text; at != end.ptr; ++at) {
    if (*at == '-' && at == text) {
      out.negative = true;
    } else if (*at == 'e') {
      exponent = at[1] == '+' ? at + 2 : at + 1;
      break;
    } else if (*at != '.') {
      out.digits += *at;
    }
  }
  std::from_chars(exponent, end.ptr, out.point);  // the text has no end but this
  ++out.point;
  return out;
}

std::string WithoutExponent(const Decimal& decimal) {
  const auto count = static_cast<int>(decimal.digits.size());
  std::string out;
  if (decimal.point <= 0) {
    out = "0." + std::string(static_cast<std::size_t>(-decimal.point), '0') + decimal.digits;
  } else if (decimal.point >= count) {
    out = decimal.digits + std::string(static_cast<std::size_t>(decimal.point - count), '0');
  } else {
    const auto point = static_cast<std::size_t>(decimal.point);
    out = decimal.digits.substr(0, point) + "." + decimal.digits.substr(point);
  }
  return (decimal.negative ? "-" : "") + out;
}

}  // namespace

std::string JsonNumber(double value) {
  if (value == 0.0) {
    return std::signbit(value) ? "-0.0" : "0.0";
  }
  constexpr int kPointMin = -4;
  constexpr int kPointMax = 16;
  const Decimal decimal = ShortestDecimal(value);
  if (decimal.point >= kPointMin && decimal.point <= kPointMax) {
    const std::string plain = WithoutExponent(decimal);
    return plain.find('.') == std::string::npos ? plain + ".0" : plain;
  }
  std::string out = (decimal.negative ? "-" : "") + decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) {
    out += "." + decimal.digits.substr(1);
  }
  const int exponent = decimal.point - 1;
  return out + (exponent < 0 ? "e" : "e+") + std::to_string(exponent);
}

std::string PlainNumber(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  if (value == 0.0) {
    return std::signbit(value) ? "-0" : "0";
  }
  return WithoutExponent(ShortestDecimal(value));
}

std::string QuotedText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
    }
    escaped += c;
  }
  return "\"" + OneLine(escaped) + "\"";
}

std::string OneLine(std::string_view text) {
  constexpr std::string_view kNamed("\n\r\t\0", 4);
  constexpr std::string_view kNames = "nrt0";
  std::string out;
  for (const char c : text) {
    if (const auto named = kNamed.find(c); named != std::string_view::npos) {
      out += '\\';
      out += kNames[named];
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      char escaped[16];
      std::snprintf(escaped, sizeof(escaped), "\\u{%x}", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace understudy::mocker
