#include "plugin/mocker/config/ranges.h"

#include "plugin/mocker/config/value_text.h"

#include <cmath>

namespace understudy::mocker {

namespace {

Status RangeError(const std::string& field,
                  const std::string& least,
                  const std::string& most,
                  const std::string& value) {
  return Fail(Errc::kInvalidConfig,
              kValidationPrefix + field + ": " + RangeText(least, most, value));
}

Status NotFinite(const std::string& field, double value) {
  return Fail(Errc::kInvalidConfig,
              field + " must be finite and non-negative, got " + PlainNumber(value));
}

}  // namespace

std::string RangeText(const std::string& least, const std::string& most, const std::string& value) {
  const auto entry = [](const char* name, const std::string& number) {
    return std::string("\"") + name + "\": Number(" + number + ")";
  };
  return "Validation error: range [{" + entry("min", least) + ", " +
         (most.empty() ? "" : entry("max", most) + ", ") + entry("value", value) + "}]";
}

Status CombinationError(const std::string& text) {
  return Fail(Errc::kInvalidConfig, std::string(kValidationPrefix) + "__all__: " + text);
}

Status AtLeastOne(const std::string& field, std::uint64_t value) {
  if (value == 0) {
    return RangeError(field, "1", "", "0");
  }
  return {};
}

Status Between(const std::string& field,
               std::uint64_t value,
               std::uint64_t least,
               std::uint64_t most) {
  if (value < least || value > most) {
    return RangeError(field, std::to_string(least), std::to_string(most), std::to_string(value));
  }
  return {};
}

Status NotNegative(const std::string& field, double value) {
  if (!std::isfinite(value)) {
    return NotFinite(field, value);
  }
  if (value < 0.0) {
    return RangeError(field, "0.0", "", JsonNumber(value));
  }
  return {};
}

Status BetweenZeroAndOne(const std::string& field, double value) {
  if (!std::isfinite(value)) {
    return NotFinite(field, value);
  }
  if (value < 0.0 || value > 1.0) {
    return RangeError(field, "0.0", "1.0", JsonNumber(value));
  }
  return {};
}

Status AtMost(const std::string& field, std::uint64_t value, std::uint64_t most) {
  if (value > most) {
    return Fail(
        Errc::kInvalidConfig,
        field + " must be at most " + std::to_string(most) + ", got " + std::to_string(value));
  }
  return {};
}

Status NotAbove(const std::string& field, double value, double most) {
  if (value > most) {
    return Fail(Errc::kInvalidConfig,
                field + " must be at most " + PlainNumber(most) + ", got " + JsonNumber(value));
  }
  return {};
}

}  // namespace understudy::mocker
