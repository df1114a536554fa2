#include "understudy/transport/records.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace understudy::transport {
namespace {

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsNameCharacter(char c) {
  return IsLower(c) || IsDigit(c) || c == '-' || c == '_';
}

/// The three parts between dots; empty when there are more, fewer or empty ones.
std::optional<EndpointName> Split(std::string_view text) {
  const std::size_t first = text.find('.');
  const std::size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  if (second == std::string_view::npos || text.find('.', second + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  EndpointName name{std::string(text.substr(0, first)),
                    std::string(text.substr(first + 1, second - first - 1)),
                    std::string(text.substr(second + 1))};
  if (name.ns.empty() || name.component.empty() || name.endpoint.empty()) {
    return std::nullopt;
  }
  return name;
}

}  // namespace

std::string HexId(std::uint64_t id) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id, 16).ptr;
  return {digits.data(), end};
}

std::string Slugify(std::string_view name) {
  std::string slug;
  for (const char c : name) {
    if (IsUpper(c)) {
      slug += static_cast<char>(c - 'A' + 'a');
    } else {
      slug += IsNameCharacter(c) ? c : '_';
    }
  }
  return slug.substr(std::min(slug.find_first_not_of('_'), slug.size()));
}

Result<EndpointName> ParseEndpointName(std::string_view text) {
  constexpr std::string_view kPrefix = "dyn://";
  const std::string_view path = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
  std::optional<EndpointName> name = Split(path);
  if (!name) {
    return Fail(Errc::kInvalidConfig, "Invalid in= option '" + std::string(text) + "'");
  }
  // The endpoint is part of keys and subjects only; the real worker does not hold it to lower case.
  const auto fits = [](char c) { return IsNameCharacter(c); };
  const auto fits_endpoint = [](char c) { return IsNameCharacter(c) || IsUpper(c); };
  const auto refuse = [](const char* what, const std::string& part) {
    return Fail(Errc::kInvalidConfig,
                std::string(what) + " '" + part + "' has characters outside a-z 0-9 - _");
  };
  if (!std::all_of(name->ns.begin(), name->ns.end(), fits)) {
    return refuse("namespace", name->ns);
  }
  if (!std::all_of(name->component.begin(), name->component.end(), fits)) {
    return refuse("component", name->component);
  }
  if (!std::all_of(name->endpoint.begin(), name->endpoint.end(), fits_endpoint)) {
    return refuse("endpoint", name->endpoint);
  }
  return *std::move(name);
}

}  // namespace understudy::transport
