// Checks of single values, with the reference's texts. `field` is the name in JSON.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <string>

namespace understudy::mocker {

/// What the reference puts before the text of a check that failed.
inline constexpr const char* kValidationPrefix = "Failed to validate MockEngineArgs: ";

/// How the reference says that a value is out of its range. It prints limits and value in an order
/// that changes from run to run; ours is fixed. `most` empty = no upper limit.
[[nodiscard]] std::string RangeText(const std::string& least,
                                    const std::string& most,
                                    const std::string& value);

/// A check of several values together.
[[nodiscard]] Status CombinationError(const std::string& text);

// The reference's ranges. Numbers that are none (NaN, infinity) are refused as well, which it does
// not.
[[nodiscard]] Status AtLeastOne(const std::string& field, std::uint64_t value);
[[nodiscard]] Status Between(const std::string& field,
                             std::uint64_t value,
                             std::uint64_t least,
                             std::uint64_t most);
[[nodiscard]] Status NotNegative(const std::string& field, double value);
[[nodiscard]] Status BetweenZeroAndOne(const std::string& field, double value);

// Bounds of ours.
[[nodiscard]] Status AtMost(const std::string& field, std::uint64_t value, std::uint64_t most);
[[nodiscard]] Status NotAbove(const std::string& field, double value, double most);

}  // namespace understudy::mocker
