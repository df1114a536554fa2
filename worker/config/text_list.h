// Lists in the values of flags and variables.
#pragma once

#include <string_view>
#include <vector>

namespace understudy::worker {

/// Without the characters of `blank` at both ends.
[[nodiscard]] inline std::string_view Trimmed(std::string_view text,
                                              std::string_view blank = " \t") {
  const auto first = text.find_first_not_of(blank);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// What stands between the separators, blanks and nothing included: always one part at least.
[[nodiscard]] inline std::vector<std::string_view> SplitList(std::string_view text,
                                                             char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace understudy::worker
