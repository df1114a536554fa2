#include "transport/file/key_names.h"

namespace understudy::transport::file {
namespace {

constexpr std::size_t kNameBytesMax = 255;

bool Plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return -1;
}

bool SafeFolder(std::string_view name) {
  return !name.empty() && name != "." && name != "..";
}

}  // namespace

std::string EscapeName(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  name.reserve(text.size());
  for (const char c : text) {
    if (Plain(c)) {
      name.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      name.push_back('%');
      name.push_back(kDigits[byte >> 4]);
      name.push_back(kDigits[byte & 0xF]);
    }
  }
  return name;
}

Result<std::string> UnescapeName(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      text.push_back(name[i]);
      continue;
    }
    const int high = i + 2 < name.size() ? HexDigit(name[i + 1]) : -1;
    const int low = i + 2 < name.size() ? HexDigit(name[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Fail(Errc::kMalformed, "broken escape in file name " + std::string(name));
    }
    text.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return text;
}

Result<KeyPlace> PlaceOf(std::string_view key) {
  const auto first = key.find('/');
  const auto second = first == std::string_view::npos ? first : key.find('/', first + 1);
  if (second == std::string_view::npos || second + 1 == key.size()) {
    return Fail(Errc::kMalformed,
                "discovery key '" + std::string(key) + "': want v1/<bucket>/<name>");
  }
  if (!SafeFolder(key.substr(0, first)) || !SafeFolder(key.substr(first + 1, second - first - 1)) ||
      key.substr(0, second).find('\0') != std::string_view::npos) {
    return Fail(Errc::kMalformed, "discovery key '" + std::string(key) + "': bad folder");
  }
  KeyPlace place{std::string(key.substr(0, second)), EscapeName(key.substr(second + 1))};
  if (place.name.size() > kNameBytesMax) {
    return Fail(Errc::kMalformed, "discovery key '" + std::string(key) + "': file name too long");
  }
  return place;
}

}  // namespace understudy::transport::file
