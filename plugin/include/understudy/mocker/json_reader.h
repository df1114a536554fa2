// Reads JSON value by value, with the reference's words, line and column for what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// A strict reader over one text, which has to outlive it. The caller asks for the type that it
/// expects; the first value of another type, or the first byte that is no JSON, ends the reading:
/// that call and all after it return false and error() tells what is where. Nothing is stored but
/// the strings asked for. Source: serde_json as dynamo-mocker 1.3.0 uses it (golden vector
/// engine_args_validation.json).
class JsonReader {
 public:
  /// Deeper texts are refused.
  static constexpr std::size_t kNestingMax = 127;

  /// Whether error() begins with the place inside the value: `sglang.page_size: ...`.
  enum class Paths : std::uint8_t { kNamed, kOmitted };
  /// Whether error() ends with the place in the text: `... at line 1 column 5`.
  enum class Positions : std::uint8_t { kNamed, kOmitted };

  explicit JsonReader(std::string_view text,
                      Paths paths = Paths::kNamed,
                      Positions positions = Positions::kNamed)
      : text_(text), naming_(paths == Paths::kNamed), locating_(positions == Positions::kNamed) {}

  // `expected` ends the message about a value of another type: "expected usize".

  /// True, and read over, when the next value is null; no error when it is another one.
  [[nodiscard]] bool TakeNull();
  [[nodiscard]] bool Bool(bool& out);
  /// A whole number of at most `max`, written without point and exponent.
  [[nodiscard]] bool Unsigned(std::uint64_t& out,
                              std::string_view expected = "u64",
                              std::uint64_t max = std::numeric_limits<std::uint64_t>::max());
  /// Whole numbers too. Always finite.
  [[nodiscard]] bool Real(double& out);
  [[nodiscard]] bool Text(std::string& out, std::string_view expected = "a string");
  /// Calls `member` with each key; it has to read or skip the value, or to fail.
  [[nodiscard]] bool Object(std::string_view expected,
                            const std::function<bool(std::string_view key)>& member);
  /// Calls `element` before each element, which it has to read or skip.
  [[nodiscard]] bool Array(std::string_view expected, const std::function<bool()>& element);
  /// Any value.
  [[nodiscard]] bool Skip();
  /// Any value, as it stands in the text.
  [[nodiscard]] bool Raw(std::string_view& out);
  /// True when only white space is left.
  [[nodiscard]] bool End();

  // The caller found something wrong: with the value just read, or with the key of the member that
  // it was called for. They return false.
  bool Fail(const std::string& message) { return FailAt(message, at_); }
  bool FailKey(const std::string& message);
  bool FailDuplicate(std::string_view key);

  [[nodiscard]] bool failed() const { return !error_.empty(); }
  /// One line; empty while nothing went wrong.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Scalar;
  struct PathPart {
    std::string text;
    bool index = false;
  };

  bool FailAt(const std::string& message, std::size_t position);
  /// With the position behind the next byte.
  bool FailAtNext(const std::string& message);
  void PushPlace(std::string text, bool index);
  void PopPlace();
  bool SkipNested();
  bool Unexpected(const Scalar& value, std::string_view expected);
  bool SkipSpace();
  bool BeginValue();
  bool ReadScalar(Scalar& out);
  bool ReadWord(std::string_view rest);
  bool ReadNumber(Scalar& out);
  bool ReadDigits();
  bool ReadString(std::string& out);
  bool ReadEscape(std::string& out);
  bool ReadHex(std::uint32_t& out);
  bool ReadUnicodeEscape(std::string& out);
  bool CopyUtf8(std::string& out);
  bool Enter(char open, std::string_view expected);
  /// Sets `more` when an element follows; false after an error.
  bool NextElement(char close, bool first, const char* what, bool& more);

  std::string_view text_;
  bool naming_;    ///< keep path_
  bool locating_;  ///< say where in the text
  std::size_t at_ = 0;
  bool colon_due_ = false;
  std::size_t depth_ = 0;
  std::vector<PathPart> path_;
  std::string error_;
};

}  // namespace understudy::mocker
