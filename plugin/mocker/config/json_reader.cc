#include "understudy/mocker/json_reader.h"

#include "plugin/mocker/config/value_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace understudy::mocker {

namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

struct JsonReader::Scalar {
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kUnsigned,
    kNegative,
    kReal,
    kText,
    kArray,
    kObject
  };
  Kind kind = Kind::kNull;
  bool truth = false;
  std::uint64_t number = 0;
  std::int64_t negative = 0;
  double real = 0.0;
  std::string text;
};

bool JsonReader::FailAt(const std::string& message, std::size_t position) {
  if (failed()) {
    return false;
  }
  for (const PathPart& part : path_) {
    error_ += (error_.empty() || part.index ? "" : ".") + part.text;
  }
  error_ += (path_.empty() ? "" : ": ") + message;
  if (!locating_) {
    return false;
  }
  const std::string_view before = text_.substr(0, position);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto newline = before.rfind('\n');
  const auto column = newline == std::string_view::npos ? position : position - newline - 1;
  error_ += " at line " + std::to_string(lines + 1) + " column " + std::to_string(column);
  return false;
}

void JsonReader::PushPlace(std::string text, bool index) {
  if (naming_) {
    path_.push_back({std::move(text), index});
  }
}

void JsonReader::PopPlace() {
  if (naming_) {
    path_.pop_back();
  }
}

bool JsonReader::FailAtNext(const std::string& message) {
  return FailAt(message, std::min(at_ + 1, text_.size()));
}

bool JsonReader::FailKey(const std::string& message) {
  if (SkipSpace() && text_[at_] == '}') {  // where the original looks for the end of the object
    ++at_;
  }
  return Fail(message);
}

bool JsonReader::FailDuplicate(std::string_view key) {
  if (failed()) {
    return false;
  }
  PopPlace();
  return FailKey("duplicate field `" + std::string(key) + "`");
}

bool JsonReader::Unexpected(const Scalar& value, std::string_view expected) {
  using Kind = Scalar::Kind;
  const std::string tail = ", expected " + std::string(expected);
  switch (value.kind) {
    case Kind::kNull:
      return Fail("invalid type: null" + tail);
    case Kind::kBool:
      return Fail(std::string("invalid type: boolean `") + (value.truth ? "true`" : "false`") +
                  tail);
    case Kind::kUnsigned:
      return Fail("invalid type: integer `" + std::to_string(value.number) + "`" + tail);
    case Kind::kNegative:
      return Fail("invalid type: integer `" + std::to_string(value.negative) + "`" + tail);
    case Kind::kReal:
      return Fail("invalid type: floating point `" + JsonNumber(value.real) + "`" + tail);
    case Kind::kText:
      return Fail("invalid type: string " + QuotedText(value.text) + tail);
    case Kind::kArray:
      return Fail("invalid type: sequence" + tail);
    case Kind::kObject:
      return Fail("invalid type: map" + tail);
  }
  return false;
}

bool JsonReader::SkipSpace() {
  while (at_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
    ++at_;
  }
  return at_ < text_.size();
}

bool JsonReader::BeginValue() {
  if (failed()) {
    return false;
  }
  if (colon_due_) {
    colon_due_ = false;
    const bool there = SkipSpace();
    if (!there || text_[at_] != ':') {
      PopPlace();  // as the original, which is still at the object
      return FailAtNext(there ? "expected `:`" : "EOF while parsing an object");
    }
    ++at_;
  }
  return SkipSpace() || FailAtNext("EOF while parsing a value");
}

bool JsonReader::ReadScalar(Scalar& out) {
  using Kind = Scalar::Kind;
  if (!BeginValue()) {
    return false;
  }
  const char first = text_[at_];
  switch (first) {
    case 'n':
      out.kind = Kind::kNull;
      return ReadWord("null");
    case 't':
    case 'f':
      out.kind = Kind::kBool;
      out.truth = first == 't';
      return ReadWord(out.truth ? "true" : "false");
    case '"':
      out.kind = Kind::kText;
      return ReadString(out.text);
    case '[':
      out.kind = Kind::kArray;
      return true;
    case '{':
      out.kind = Kind::kObject;
      return true;
    default:
      return first == '-' || IsDigit(first) ? ReadNumber(out) : FailAtNext("expected value");
  }
}

bool JsonReader::ReadWord(std::string_view word) {
  for (const char c : word) {
    if (at_ == text_.size()) {
      return Fail("EOF while parsing a value");
    }
    if (text_[at_++] != c) {
      return Fail("expected ident");
    }
  }
  return true;
}

bool JsonReader::ReadDigits() {
  if (at_ == text_.size()) {
    return Fail("EOF while parsing a value");
  }
  if (!IsDigit(text_[at_])) {
    return FailAtNext("invalid number");
  }
  while (at_ < text_.size() && IsDigit(text_[at_])) {
    ++at_;
  }
  return true;
}

bool JsonReader::ReadNumber(Scalar& out) {
  using Kind = Scalar::Kind;
  const std::size_t start = at_;
  const bool minus = text_[at_] == '-';
  if (minus) {
    ++at_;
  }
  const bool zero = at_ < text_.size() && text_[at_] == '0';
  if (!zero && !ReadDigits()) {
    return false;
  }
  if (zero && ++at_ < text_.size() && IsDigit(text_[at_])) {
    return FailAtNext("invalid number");
  }
  bool whole = true;
  if (at_ < text_.size() && text_[at_] == '.') {
    whole = false;
    ++at_;
    if (!ReadDigits()) {
      return false;
    }
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    whole = false;
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) {
      ++at_;
    }
    if (!ReadDigits()) {
      return false;
    }
  }
  const std::string digits(text_.substr(start, at_ - start));
  const char* end = digits.data() + digits.size();
  if (whole && !minus && std::from_chars(digits.data(), end, out.number).ec == std::errc()) {
    out.kind = Kind::kUnsigned;
    return true;
  }
  if (whole && minus && std::from_chars(digits.data(), end, out.negative).ec == std::errc() &&
      out.negative != 0) {
    out.kind = Kind::kNegative;
    return true;
  }
  out.kind = Kind::kReal;
  out.real = std::strtod(digits.c_str(), nullptr);
  return std::isfinite(out.real) || Fail("number out of range");
}

bool JsonReader::TakeNull() {
  return BeginValue() && text_[at_] == 'n' && ReadWord("null");
}

bool JsonReader::Bool(bool& out) {
  Scalar value;
  if (!ReadScalar(value)) {
    return false;
  }
  out = value.truth;
  return value.kind == Scalar::Kind::kBool || Unexpected(value, "a boolean");
}

bool JsonReader::Unsigned(std::uint64_t& out, std::string_view expected, std::uint64_t max) {
  Scalar value;
  if (!ReadScalar(value)) {
    return false;
  }
  const bool negative = value.kind == Scalar::Kind::kNegative;
  if (!negative && value.kind != Scalar::Kind::kUnsigned) {
    return Unexpected(value, expected);
  }
  if (negative || value.number > max) {
    return Fail("invalid value: integer `" +
                (negative ? std::to_string(value.negative) : std::to_string(value.number)) +
                "`, expected " + std::string(expected));
  }
  out = value.number;
  return true;
}

bool JsonReader::Real(double& out) {
  Scalar value;
  if (!ReadScalar(value)) {
    return false;
  }
  switch (value.kind) {
    case Scalar::Kind::kReal:
      out = value.real;
      return true;
    case Scalar::Kind::kUnsigned:
      out = static_cast<double>(value.number);
      return true;
    case Scalar::Kind::kNegative:
      out = static_cast<double>(value.negative);
      return true;
    default:
      return Unexpected(value, "f64");
  }
}

bool JsonReader::Text(std::string& out, std::string_view expected) {
  Scalar value;
  if (!ReadScalar(value)) {
    return false;
  }
  if (value.kind != Scalar::Kind::kText) {
    return Unexpected(value, expected);
  }
  out = std::move(value.text);
  return true;
}

bool JsonReader::Enter(char open, std::string_view expected) {
  if (!BeginValue()) {
    return false;
  }
  if (text_[at_] != open) {
    Scalar value;
    return ReadScalar(value) && Unexpected(value, expected);
  }
  if (depth_ == kNestingMax) {
    return FailAtNext("recursion limit exceeded");
  }
  ++depth_;
  ++at_;
  return true;
}

bool JsonReader::NextElement(char close, bool first, const char* what, bool& more) {
  if (failed()) {
    return false;
  }
  more = false;
  if (!SkipSpace()) {
    return FailAtNext(std::string("EOF while parsing ") + what);
  }
  if (text_[at_] == close) {
    --depth_;
    ++at_;
    return true;
  }
  if (!first) {
    if (text_[at_] != ',') {
      return FailAtNext(std::string("expected `,` or `") + close + "`");
    }
    ++at_;
    if (!SkipSpace()) {
      return FailAtNext("EOF while parsing a value");
    }
    if (text_[at_] == close) {
      return FailAtNext("trailing comma");
    }
  }
  more = true;
  return true;
}

bool JsonReader::Object(std::string_view expected,
                        const std::function<bool(std::string_view)>& member) {
  if (!Enter('{', expected)) {
    return false;
  }
  bool more = false;
  for (bool first = true; NextElement('}', first, "an object", more); first = false) {
    if (!more) {
      return true;
    }
    if (text_[at_] != '"') {
      return FailAtNext("key must be a string");
    }
    std::string key;
    if (!ReadString(key)) {
      return false;
    }
    colon_due_ = true;
    PushPlace(key, false);
    if (!member(key) || failed()) {
      return false;
    }
    PopPlace();
  }
  return false;
}

bool JsonReader::Array(std::string_view expected, const std::function<bool()>& element) {
  if (!Enter('[', expected)) {
    return false;
  }
  bool more = false;
  std::size_t index = 0;
  for (; NextElement(']', index == 0, "a list", more); ++index) {
    if (!more) {
      return true;
    }
    if (naming_) {  // no text per element otherwise
      PushPlace("[" + std::to_string(index) + "]", true);
    }
    if (!element() || failed()) {
      return false;
    }
    PopPlace();
  }
  return false;
}

bool JsonReader::Skip() {
  if (!BeginValue()) {
    return false;
  }
  const bool naming = std::exchange(naming_, false);  // what is read over has no names
  const bool read = SkipNested();
  naming_ = naming;
  return read;
}

bool JsonReader::Raw(std::string_view& out) {
  if (!BeginValue()) {
    return false;
  }
  const std::size_t start = at_;
  if (!Skip()) {
    return false;
  }
  out = text_.substr(start, at_ - start);
  return true;
}

bool JsonReader::SkipNested() {
  Scalar value;
  if (!ReadScalar(value)) {
    return false;
  }
  if (value.kind == Scalar::Kind::kArray) {
    return Array("", [this] { return SkipNested(); });
  }
  if (value.kind == Scalar::Kind::kObject) {
    return Object("", [this](std::string_view) { return SkipNested(); });
  }
  return true;
}

bool JsonReader::End() {
  if (failed()) {
    return false;
  }
  return !SkipSpace() || FailAtNext("trailing characters");
}

}  // namespace understudy::mocker
