#include "plugin/mocker/perf_model/npy_header.h"

#include "plugin/mocker/perf_model/npy.h"

#include <cstdint>
#include <limits>

namespace understudy::mocker {

namespace {

/// Only the literals that NumPy writes: strings without escapes, True, False, tuples of integers.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result<NpyHeader> Read() {
    UNDERSTUDY_TRY_STATUS(Expect('{'));
    while (!Take('}')) {
      UNDERSTUDY_TRY_STATUS(ReadEntry());
      if (!Take(',')) {
        UNDERSTUDY_TRY_STATUS(Expect('}'));
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) {
      return Wrong("nothing after the closing brace");
    }
    if (!has_dtype_ || !has_order_ || !has_shape_) {
      return Fail(Errc::kMalformed, "header: descr, fortran_order and shape must all be there");
    }
    return header_;
  }

 private:
  Status ReadEntry() {
    UNDERSTUDY_TRY(const std::string_view key, ReadString());
    UNDERSTUDY_TRY_STATUS(Expect(':'));
    bool* seen = key == "descr"           ? &has_dtype_
                 : key == "fortran_order" ? &has_order_
                 : key == "shape"         ? &has_shape_
                                          : nullptr;
    if (seen == nullptr || *seen) {
      return Wrong("each of descr, fortran_order and shape once, before this byte");
    }
    *seen = true;
    return key == "descr" ? ReadDtype() : key == "shape" ? ReadShape() : ReadOrder();
  }

  Status ReadDtype() {
    if (Take('[')) {
      return Fail(Errc::kUnsupported, "header: descr is a record type, expected '<f8'");
    }
    UNDERSTUDY_TRY(const std::string_view dtype, ReadString());
    header_.dtype = dtype;
    return {};
  }

  Status ReadOrder() {
    if (TakeWord("True")) {
      header_.fortran_order = true;
    } else if (!TakeWord("False")) {
      return Wrong("True or False");
    }
    return {};
  }

  Status ReadShape() {
    UNDERSTUDY_TRY_STATUS(Expect('('));
    while (!Take(')')) {
      if (header_.shape.size() == kNpyDimensionsMax) {
        return Fail(
            Errc::kUnsupported,
            "header: shape has more than " + std::to_string(kNpyDimensionsMax) + " dimensions");
      }
      UNDERSTUDY_TRY(const std::size_t size, ReadSize());
      header_.shape.push_back(size);
      if (!Take(',')) {
        return Expect(')');
      }
    }
    return {};
  }

  Result<std::size_t> ReadSize() {
    SkipSpace();
    constexpr std::size_t kSafe = (std::numeric_limits<std::size_t>::max() - 9) / 10;
    const std::size_t begin = at_;
    std::size_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > kSafe) {
        return Wrong("a smaller number in shape");
      }
      value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
    }
    if (at_ == begin) {
      return Wrong("a number in shape");
    }
    Take('L');  // Python 2 wrote long integers so
    return value;
  }

  Result<std::string_view> ReadString() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      return Wrong("a quote");
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      return Wrong("a closing quote");
    }
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool Take(char wanted) {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return false;
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return true;
    }
    return false;
  }

  Status Expect(char wanted) {
    if (Take(wanted)) {
      return {};
    }
    return Wrong(std::string("'") + wanted + "'");
  }

  [[nodiscard]] tl::unexpected<Error> Wrong(const std::string& expected) const {
    return Fail(Errc::kMalformed,
                "header: expected " + expected + " at byte " + std::to_string(at_) + " of " +
                    std::to_string(text_.size()));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool has_dtype_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

Result<NpyHeader> ParseNpyHeader(std::string_view text) {
  return HeaderReader(text).Read();
}

}  // namespace understudy::mocker
