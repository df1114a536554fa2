#include "transport/codec/json_writer.h"

#include "transport/codec/utf8.h"

#include <array>
#include <charconv>
#include <cstddef>

namespace understudy::transport {
namespace {

void AppendEscape(std::string& out, char character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (character) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<std::uint8_t>(character) >> 4U];
      out += kHex[static_cast<std::uint8_t>(character) & 0x0FU];
  }
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of what is copied as it is
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<std::uint8_t>(text[at]);
    if (byte < 0x20 || byte == '"' || byte == '\\') {
      out.append(text, plain, at - plain);
      AppendEscape(out, text[at]);
      plain = ++at;
    } else if (byte < 0x80) {
      ++at;
    } else {
      bool valid = false;
      const std::size_t bytes = Utf8CharacterBytes(text, at, valid);
      if (!valid) {
        out.append(text, plain, at - plain).append(kUtf8Replacement);
        plain = at + bytes;
      }
      at += bytes;
    }
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

void AppendDecimal(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void JsonWriter::Separate() {
  if (comma_) {
    out_ += ',';
  }
  comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(out_, key);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Text(std::string_view text) {
  Separate();
  AppendJsonString(out_, text);
  return *this;
}

JsonWriter& JsonWriter::Number(std::uint64_t number) {
  Separate();
  AppendDecimal(out_, number);
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace understudy::transport
