// The first thing wrong with an input, named by field.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Readers return false and leave the reason here; later reasons (of the callers on the way up)
/// don't replace it.
class Problem {
 public:
  bool Malformed(std::string_view field, std::string_view what) {
    return Set(Errc::kMalformed, field, what);
  }
  bool Unsupported(std::string_view field, std::string_view what) {
    return Set(Errc::kUnsupported, field, what);
  }
  [[nodiscard]] Error Take() {
    if (!set_) {
      Set(Errc::kMalformed, "", "unreadable");
    }
    return std::move(error_);
  }

 private:
  bool Set(Errc code, std::string_view field, std::string_view what) {
    if (!set_) {
      set_ = true;
      error_.code = code;
      error_.message = field;
      error_.message += field.empty() ? "" : ": ";
      error_.message += what;
    }
    return false;
  }

  bool set_ = false;
  Error error_;
};

/// Refuses a known key that comes twice in one object: two values contradict each other.
class SeenKeys {
 public:
  [[nodiscard]] bool First(unsigned bit, std::string_view key, Problem& problem) {
    if ((bits_ >> bit & 1U) != 0) {
      return problem.Malformed(key, "given twice");
    }
    bits_ |= 1U << bit;
    return true;
  }
  [[nodiscard]] bool Has(unsigned bit) const { return (bits_ >> bit & 1U) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace understudy::transport
