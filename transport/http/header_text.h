// Small pieces of HTTP/1.1 header syntax, for the status server and for the etcd client.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace understudy::transport::http {

/// A token of RFC 9110: method and field names.
[[nodiscard]] inline bool IsToken(std::string_view text) {
  constexpr std::string_view kTokenChars =
      "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return !text.empty() && text.find_first_not_of(kTokenChars) == std::string_view::npos;
}

/// ASCII only.
[[nodiscard]] inline std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

/// Without blanks and tabs around it.
[[nodiscard]] inline std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Whether the comma list `value` holds `word` (lower case).
[[nodiscard]] inline bool Lists(std::string_view value, std::string_view word) {
  while (!value.empty()) {
    const auto comma = value.find(',');
    if (Lower(Trim(value.substr(0, comma))) == word) {
      return true;
    }
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
  return false;
}

}  // namespace understudy::transport::http
