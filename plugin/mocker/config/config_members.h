// Objects of the nested configuration, read from tables of their members.
#pragma once

#include "plugin/mocker/config/json_members.h"
#include "understudy/mocker/json_reader.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::mocker {

/// A word and what it stands for.
template <class E, std::size_t N>
using Words = std::array<std::pair<std::string_view, E>, N>;

template <class E, std::size_t N>
[[nodiscard]] bool ReadWord(JsonReader& reader,
                            const Words<E, N>& words,
                            E& out,
                            std::string_view expected = "string or map") {
  std::string text;
  if (!reader.Text(text, expected)) {
    return false;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, meaning] : words) {
    if (name == text) {
      out = meaning;
      return true;
    }
    names.push_back(name);
  }
  return reader.Fail("unknown variant `" + text + "`, expected " + OneOf(names));
}

// Values by their type; u64 is said as "usize" unless the reference says otherwise.
[[nodiscard]] inline bool ReadValue(JsonReader& reader, std::uint64_t& out) {
  return reader.Unsigned(out, "usize");
}
[[nodiscard]] inline bool ReadValue(JsonReader& reader, std::uint16_t& out) {
  std::uint64_t value = 0;
  const bool read = reader.Unsigned(value, "u16", std::numeric_limits<std::uint16_t>::max());
  out = static_cast<std::uint16_t>(value);
  return read;
}
[[nodiscard]] inline bool ReadValue(JsonReader& reader, double& out) {
  return reader.Real(out);
}
[[nodiscard]] inline bool ReadValue(JsonReader& reader, bool& out) {
  return reader.Bool(out);
}
[[nodiscard]] inline bool ReadValue(JsonReader& reader, std::string& out) {
  return reader.Text(out);
}
[[nodiscard]] inline bool ReadValue(JsonReader& reader, ReasoningOptions& out) {
  return ReadReasoningObject(reader, out);
}
/// Null leaves it empty.
template <class T>
[[nodiscard]] bool ReadValue(JsonReader& reader, std::optional<T>& out) {
  return Optional(reader, out, [&reader](T& value) { return ReadValue(reader, value); });
}

/// A member of the object that becomes a T.
template <class T>
struct ConfigMember {
  std::string_view name;
  bool (*read)(JsonReader& reader, T& out) = nullptr;
  std::string_view stands_for{};  ///< another name of that member
};

/// A member whose type says how it is read.
template <class T, auto kMember>
constexpr ConfigMember<T> Plain(std::string_view name) {
  return {name, [](JsonReader& reader, T& out) { return ReadValue(reader, out.*kMember); }, {}};
}

/// Reads the value of `key`; an unknown one is an error that lists `members`.
template <class T, std::size_t N>
[[nodiscard]] bool ReadMember(JsonReader& reader,
                              const std::array<ConfigMember<T>, N>& members,
                              std::string_view key,
                              Members& seen,
                              T& out) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < N; ++i) {
    const ConfigMember<T>& member = members[i];
    if (member.name != key) {
      names.push_back(member.name);
      continue;
    }
    std::size_t place = i;
    for (std::size_t j = 0; j < N && !member.stands_for.empty(); ++j) {
      place = members[j].name == member.stands_for ? j : place;
    }
    return seen.Take(place, members[place].name) && !reader.failed() && member.read(reader, out);
  }
  return reader.FailKey("unknown field `" + std::string(key) + "`, expected " + OneOf(names));
}

/// A whole object; `seen` tells which members were there.
template <class T, std::size_t N>
[[nodiscard]] bool ReadMembers(JsonReader& reader,
                               std::string_view expected,
                               const std::array<ConfigMember<T>, N>& members,
                               T& out,
                               Members& seen) {
  static_assert(N <= Members::kMembersMax);
  return reader.Object(
      expected, [&](std::string_view key) { return ReadMember(reader, members, key, seen, out); });
}

template <class T, std::size_t N>
[[nodiscard]] bool ReadMembers(JsonReader& reader,
                               std::string_view expected,
                               const std::array<ConfigMember<T>, N>& members,
                               T& out) {
  Members seen(reader);
  return ReadMembers(reader, expected, members, out, seen);
}

}  // namespace understudy::mocker
