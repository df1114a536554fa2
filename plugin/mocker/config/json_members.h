// What readers of configuration objects share: members that come at most once, values that may be
// null.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/json_reader.h"
#include "understudy/mocker/mocker_options.h"

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// Which members of one object were there.
class Members {
 public:
  static constexpr std::size_t kMembersMax = 64;

  explicit Members(JsonReader& reader) : reader_(reader) {}

  /// True when `key` is `name`; a second time it is an error of the reader.
  bool Is(std::string_view key, std::size_t index, std::string_view name) {
    return key == name && Take(index, name);
  }
  /// Notes member `index`; a second time the reader fails, which names it `name`.
  bool Take(std::size_t index, std::string_view name) {
    if (seen_.test(index)) {
      reader_.FailDuplicate(name);
    }
    seen_.set(index);
    return true;
  }
  [[nodiscard]] bool seen(std::size_t index) const { return seen_.test(index); }

 private:
  JsonReader& reader_;
  std::bitset<kMembersMax> seen_;
};

/// `read` fills a value; null leaves it empty.
template <class T, class Read>
bool Optional(JsonReader& reader, std::optional<T>& out, Read&& read) {
  out.reset();
  if (reader.TakeNull()) {
    return true;
  }
  return !reader.failed() && read(out.emplace());
}

/// `reasoning`, the same in all releases: three members, all of them needed; others are read over.
[[nodiscard]] bool ReadReasoningObject(JsonReader& reader, ReasoningOptions& out);

/// "`a`", "`a` or `b`", "one of `a`, `b`, `c`".
[[nodiscard]] std::string OneOf(const std::vector<std::string_view>& names);

/// kInvalidConfig with the reader's error.
[[nodiscard]] tl::unexpected<Error> Refuse(const JsonReader& reader);

}  // namespace understudy::mocker
