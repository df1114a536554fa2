// The strings of JsonReader.
#include "understudy/mocker/json_reader.h"

#include <charconv>

namespace understudy::mocker {

namespace {

void AppendUtf8(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6U);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12U);
    byte(0x80 | (code >> 6U & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18U);
    byte(0x80 | (code >> 12U & 0x3F));
    byte(0x80 | (code >> 6U & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

/// Bytes of the UTF-8 sequence at the start of `text`; 0 when it is none.
std::size_t Utf8Length(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  const bool overlong = (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xF0 && at(1) < 0x90);
  const bool surrogate = lead == 0xED && at(1) > 0x9F;
  const bool too_large = lead == 0xF4 && at(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

bool JsonReader::ReadString(std::string& out) {
  out.clear();
  ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return true;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      if (!CopyUtf8(out)) {
        return false;
      }
      continue;
    }
    ++at_;
    if (static_cast<unsigned char>(c) < 0x20) {
      return Fail("control character (\\u0000-\\u001F) found while parsing a string");
    }
    if (c != '\\') {
      out += c;
    } else if (!ReadEscape(out)) {
      return false;
    }
  }
  return Fail("EOF while parsing a string");
}

bool JsonReader::CopyUtf8(std::string& out) {
  const std::size_t length = Utf8Length(text_.substr(at_));
  if (length == 0) {
    return FailAtNext("invalid unicode code point");
  }
  out += text_.substr(at_, length);
  at_ += length;
  return true;
}

bool JsonReader::ReadEscape(std::string& out) {
  if (at_ == text_.size()) {
    return Fail("EOF while parsing a string");
  }
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char name = text_[at_++];
  if (name == 'u') {
    return ReadUnicodeEscape(out);
  }
  const auto found = kNames.find(name);
  if (found == std::string_view::npos) {
    return Fail("invalid escape");
  }
  out += kMeanings[found];
  return true;
}

bool JsonReader::ReadHex(std::uint32_t& out) {
  constexpr std::size_t kDigits = 4;
  if (text_.size() - at_ < kDigits) {
    at_ = text_.size();
    return Fail("EOF while parsing a string");
  }
  const char* first = text_.data() + at_;
  at_ += kDigits;
  const auto parsed = std::from_chars(first, first + kDigits, out, 16);
  return (parsed.ec == std::errc() && parsed.ptr == first + kDigits) || Fail("invalid escape");
}

bool JsonReader::ReadUnicodeEscape(std::string& out) {
  std::uint32_t code = 0;
  if (!ReadHex(code)) {
    return false;
  }
  if (code >= 0xDC00 && code <= 0xDFFF) {
    return Fail("lone leading surrogate in hex escape");
  }
  if (code >= 0xD800 && code <= 0xDBFF) {
    for (const char expected : {'\\', 'u'}) {
      if (at_ == text_.size()) {
        return Fail("EOF while parsing a string");
      }
      if (text_[at_++] != expected) {
        return Fail("unexpected end of hex escape");
      }
    }
    std::uint32_t low = 0;
    if (!ReadHex(low)) {
      return false;
    }
    if (low < 0xDC00 || low > 0xDFFF) {
      return Fail("lone leading surrogate in hex escape");
    }
    code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
  }
  AppendUtf8(out, code);
  return true;
}

}  // namespace understudy::mocker
