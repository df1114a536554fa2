#include "plugin/mocker/config/json_members.h"

#include "plugin/mocker/config/value_text.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>

namespace understudy::mocker {

bool ReadReasoningObject(JsonReader& reader, ReasoningOptions& out) {
  constexpr std::array<std::string_view, 3> kNames = {
      "start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"};
  Members members(reader);
  const auto token = [&reader](std::uint32_t& id) {
    std::uint64_t value = 0;
    const bool read = reader.Unsigned(value, "u32", std::numeric_limits<std::uint32_t>::max());
    id = static_cast<std::uint32_t>(value);
    return read;
  };
  const bool read = reader.Object("struct ReasoningConfig", [&](std::string_view key) {
    if (members.Is(key, 0, kNames[0])) {
      return token(out.start_token);
    }
    if (members.Is(key, 1, kNames[1])) {
      return token(out.end_token);
    }
    if (members.Is(key, 2, kNames[2])) {
      return reader.Real(out.thinking_ratio);
    }
    return reader.Skip();
  });
  for (std::size_t i = 0; read && i < kNames.size(); ++i) {
    if (!members.seen(i)) {
      return reader.Fail("missing field `" + std::string(kNames[i]) + "`");
    }
  }
  return read;
}

std::string OneOf(const std::vector<std::string_view>& names) {
  const auto quoted = [](std::string_view name) { return "`" + std::string(name) + "`"; };
  if (names.size() == 2) {
    return quoted(names[0]) + " or " + quoted(names[1]);
  }
  std::string text = names.size() > 2 ? "one of " : "";
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : ", ") + quoted(names[i]);
  }
  return text;
}

tl::unexpected<Error> Refuse(const JsonReader& reader) {
  return Fail(Errc::kInvalidConfig, OneLine(reader.error()));
}

}  // namespace understudy::mocker
