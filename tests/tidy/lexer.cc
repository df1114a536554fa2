#include "tests/tidy/rules.h"

#include <algorithm>

namespace understudy::tidy {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Copies text while blanking what is not code. One instance per text.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text) { out_.reserve(text.size()); }

  std::string Run() {
    while (at_ < text_.size()) {
      Step();
    }
    return std::move(out_);
  }

 private:
  void Step() {
    const char c = text_[at_];
    if (c == '#' && LineIsBlankSoFar()) {
      BlankDirective();
    } else if (Starts("//")) {
      BlankUntil(std::min(text_.find('\n', at_), text_.size()));
    } else if (Starts("/*")) {
      BlankUntil(After("*/", at_ + 2));
    } else if (c == '"' && at_ > 0 && text_[at_ - 1] == 'R') {
      BlankRawString();
    } else if (c == '"' || (c == '\'' && !IsDigitSeparator())) {
      BlankQuoted(c);
    } else {
      out_ += c;
      ++at_;
    }
  }

  [[nodiscard]] bool Starts(std::string_view token) const {
    return text_.substr(at_, token.size()) == token;
  }

  [[nodiscard]] std::size_t After(std::string_view token, std::size_t from) const {
    const std::size_t found = text_.find(token, from);
    return found == std::string_view::npos ? text_.size() : found + token.size();
  }

  [[nodiscard]] bool LineIsBlankSoFar() const {
    for (std::size_t i = at_; i > 0 && text_[i - 1] != '\n'; --i) {
      if (text_[i - 1] != ' ' && text_[i - 1] != '\t') {
        return false;
      }
    }
    return true;
  }

  /// 1'000'000 and 0xff'ff, but not u8'x'.
  [[nodiscard]] bool IsDigitSeparator() const {
    if (at_ == 0 || at_ + 1 >= text_.size() || !IsWordChar(text_[at_ - 1])) {
      return false;
    }
    std::size_t first = at_;
    while (first > 0 && (IsWordChar(text_[first - 1]) || text_[first - 1] == '\'')) {
      --first;
    }
    return text_[first] >= '0' && text_[first] <= '9';
  }

  void BlankDirective() {
    std::size_t end = at_;
    do {
      end = std::min(text_.find('\n', end + 1), text_.size());
    } while (end < text_.size() && text_[end - 1] == '\\');
    BlankUntil(end);
  }

  void BlankRawString() {
    const std::size_t open = std::min(text_.find('(', at_), text_.size());
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    BlankUntil(After(close, open));
  }

  void BlankQuoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2U : 1U;
    }
    BlankUntil(std::min(end + 1, text_.size()));
  }

  void BlankUntil(std::size_t end) {
    for (; at_ < end; ++at_) {
      out_ += text_[at_] == '\n' ? '\n' : ' ';
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string BlankNonCode(std::string_view text) {
  return Blanker(text).Run();
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace understudy::tidy
