// Reads one named field from a JsonValue or a MsgpackReader into a C++ type, or says what is wrong
// with it.
#pragma once

#include "transport/codec/problem.h"
#include "understudy/base/uuid.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::transport {

template <class V>
bool ReadText(V&& value, std::string_view field, std::string& out, Problem& problem) {
  std::string_view text;
  if (!value.Text(text)) {
    return problem.Malformed(field, "not a string");
  }
  out = text;
  return true;
}

/// A peer's text in ours: not more of it than tells what it is.
inline std::string Quoted(std::string_view text) {
  constexpr std::size_t kShownMax = 64;
  return "'" + std::string(text.substr(0, kShownMax)) + "'";
}

template <class V>
bool ReadUuid(V&& value, std::string_view field, Uuid& out, Problem& problem) {
  std::string_view text;
  if (!value.Text(text)) {
    return problem.Malformed(field, "not a string");
  }
  const auto uuid = ParseUuid(text);
  if (!uuid) {
    return problem.Malformed(field, Quoted(text) + " is not a UUID");
  }
  out = *uuid;
  return true;
}

template <class V>
bool ReadU64(V&& value, std::string_view field, std::uint64_t& out, Problem& problem) {
  return value.Unsigned(out) || problem.Malformed(field, "not an unsigned integer");
}

template <class V>
bool ReadU32(V&& value, std::string_view field, std::uint32_t& out, Problem& problem) {
  std::uint64_t number = 0;
  if (!ReadU64(value, field, number, problem)) {
    return false;
  }
  if (number > std::numeric_limits<std::uint32_t>::max()) {
    return problem.Malformed(field, std::to_string(number) + " does not fit into 32 bits");
  }
  out = static_cast<std::uint32_t>(number);
  return true;
}

template <class V>
bool ReadBool(V&& value, std::string_view field, bool& out, Problem& problem) {
  return value.Bool(out) || problem.Malformed(field, "not true or false");
}

template <class V>
bool ReadNumber(V&& value, std::string_view field, double& out, Problem& problem) {
  return value.Number(out) || problem.Malformed(field, "not a number");
}

/// null leaves `out` empty; anything else goes through `read` (one of the above).
template <class V, class T, class Read>
bool ReadOptional(
    V&& value, std::string_view field, std::optional<T>& out, Problem& problem, Read read) {
  if (value.TakeNull()) {
    return true;
  }
  return read(value, field, out.emplace(), problem);
}

template <class V>
bool ReadOptionalText(V&& value,
                      std::string_view field,
                      std::optional<std::string>& out,
                      Problem& problem) {
  return ReadOptional(value, field, out, problem, [](auto&&... args) { return ReadText(args...); });
}

template <class V>
bool ReadOptionalU32(V&& value,
                     std::string_view field,
                     std::optional<std::uint32_t>& out,
                     Problem& problem) {
  return ReadOptional(value, field, out, problem, [](auto&&... args) { return ReadU32(args...); });
}

template <class V>
bool ReadOptionalU64(V&& value,
                     std::string_view field,
                     std::optional<std::uint64_t>& out,
                     Problem& problem) {
  return ReadOptional(value, field, out, problem, [](auto&&... args) { return ReadU64(args...); });
}

}  // namespace understudy::transport
