// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace understudy::worker {

/// Fixed decimals, thousands in groups: 12345.678 with 2 decimals is "12,345.68".
[[nodiscard]] std::string Grouped(double value, int decimals);
[[nodiscard]] std::string Grouped(std::uint64_t value);

/// About four digits that matter: "0.001234", "12.35", "1,235".
[[nodiscard]] std::string Short(double value);

/// As it was given: "60", "0.85", "1e+20".
[[nodiscard]] std::string Plain(double value);

/// A ratio as a percentage with up to two decimals: 0.4287 is "42.87 %".
[[nodiscard]] std::string Percent(double ratio);

/// A span of time in the unit that fits: "240.2 ms", "12.5 s", "3 min 20 s", "2 h 05 min".
[[nodiscard]] std::string TimeSpan(double ms);

}  // namespace understudy::worker
