#include "tests/unit/plugin/validation_text.h"

#include <algorithm>
#include <regex>
#include <vector>

namespace understudy::mocker {

std::string WithSortedRange(const std::string& text) {
  static const std::regex kRange(R"re(range \[\{(.*)\}\])re");
  std::smatch match;
  if (!std::regex_search(text, match, kRange)) {
    return text;
  }
  static const std::regex kEntry(R"re("\w+": Number\([^)]*\))re");
  const std::string inner = match[1];
  std::vector<std::string> entries(std::sregex_token_iterator(inner.begin(), inner.end(), kEntry),
                                   {});
  std::sort(entries.begin(), entries.end());
  std::string out = match.prefix().str() + "range";
  for (const std::string& entry : entries) {
    out += " " + entry;
  }
  return out;
}

}  // namespace understudy::mocker
