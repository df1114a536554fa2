// Read-only view of parsed JSON with the same members as MsgpackReader, so that one template reads
// both codecs. Includes simdjson: for .cc files only.
#pragma once

#include "transport/codec/problem.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <simdjson.h>

namespace understudy::transport {

class JsonValue {
 public:
  explicit JsonValue(simdjson::dom::element element) : element_(element) {}

  [[nodiscard]] bool TakeNull() const { return element_.is_null(); }
  [[nodiscard]] bool Skip() const { return true; }
  [[nodiscard]] bool Bool(bool& out) const { return element_.get_bool().get(out) == 0U; }
  [[nodiscard]] bool Text(std::string_view& out) const {
    return element_.get_string().get(out) == 0U;
  }
  [[nodiscard]] bool Number(double& out) const { return element_.get_double().get(out) == 0U; }
  /// Integers, and floating numbers without a fraction.
  [[nodiscard]] bool Unsigned(std::uint64_t& out) const {
    if (element_.get_uint64().get(out) == 0U) {
      return true;
    }
    double number = 0;
    return element_.is_double() && Number(number) && WholeNumber(number, out);
  }
  [[nodiscard]] static bool WholeNumber(double number, std::uint64_t& out) {
    constexpr double kExactMax =
        9007199254740992.0;  // 2^53: beyond it a double no longer names one integer
    if (!(number >= 0.0 && number <= kExactMax) || std::trunc(number) != number) {
      return false;
    }
    out = static_cast<std::uint64_t>(number);
    return true;
  }

  /// Calls f(key, value) -> bool for each member; false when this is no object or f refused.
  template <class F>
  [[nodiscard]] bool Fields(F&& f) const {
    simdjson::dom::object object;
    if (element_.get_object().get(object) != 0U) {
      return false;
    }
    for (const auto field : object) {
      if (!f(field.key, JsonValue(field.value))) {
        return false;
      }
    }
    return true;
  }

  /// Calls begin(count) -> bool once, then f(value) -> bool for each item. JSON knows the count
  /// only up to 2^24 - 1.
  template <class B, class F>
  [[nodiscard]] bool Items(B&& begin, F&& f) const {
    simdjson::dom::array array;
    if (element_.get_array().get(array) != 0U || !begin(std::uint64_t{array.size()})) {
      return false;
    }
    for (const auto item : array) {
      if (!f(JsonValue(item))) {
        return false;
      }
    }
    return true;
  }

 private:
  simdjson::dom::element element_;
};

/// Checks the whole text: UTF-8, syntax, at most `nesting_max` levels of objects and arrays,
/// nothing behind the value. The value lives in a buffer of this thread until its next ParseJson.
[[nodiscard]] Result<JsonValue> ParseJson(std::string_view text, std::size_t nesting_max);

}  // namespace understudy::transport
