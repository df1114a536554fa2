#include "worker/replay/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace understudy::worker {
namespace {

constexpr double kMsPerSecond = 1000.0;
constexpr double kMsPerMinute = 60'000.0;
constexpr double kMsPerHour = 3'600'000.0;

std::string Fixed(double value, int decimals) {
  std::array<char, 352> text{};  // the largest double has 309 digits before the point
  const int size = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(std::max(size, 0))};
}

std::string Parts(
    double ms, double unit, double smaller, const char* name, const char* small_name) {
  const double rounded = std::round(ms / smaller);
  const double ratio = unit / smaller;
  const auto rest = static_cast<unsigned>(std::fmod(rounded, ratio));
  return Grouped(std::floor(rounded / ratio), 0) + " " + name + " " + (rest < 10 ? "0" : "") +
         std::to_string(rest) + " " + small_name;
}

}  // namespace

std::string Grouped(double value, int decimals) {
  if (!std::isfinite(value)) {
    return "-";
  }
  auto text = Fixed(value, decimals);
  const std::size_t begin = text.front() == '-' ? 1 : 0;
  auto at = std::min(text.find('.'), text.size());
  while (at > begin + 3) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string Grouped(std::uint64_t value) {
  auto text = std::to_string(value);
  for (auto at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string Short(double value) {
  const double size = std::abs(value);
  if (size == 0 || !std::isfinite(value)) {
    return size == 0 ? "0" : "-";
  }
  const int digits_before = static_cast<int>(std::floor(std::log10(size))) + 1;
  return Grouped(value, std::clamp(4 - digits_before, 0, 9));
}

std::string Plain(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string Percent(double ratio) {
  return Grouped(ratio * 100.0, 2) + " %";
}

std::string TimeSpan(double ms) {
  if (ms < kMsPerSecond) {
    return Short(ms) + " ms";
  }
  if (ms < kMsPerMinute) {
    return Short(ms / kMsPerSecond) + " s";
  }
  return ms < kMsPerHour ? Parts(ms, kMsPerMinute, kMsPerSecond, "min", "s")
                         : Parts(ms, kMsPerHour, kMsPerMinute, "h", "min");
}

}  // namespace understudy::worker
