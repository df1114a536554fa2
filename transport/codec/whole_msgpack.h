// Reads one msgpack value that fills all of its bytes.
#pragma once

#include "transport/codec/field_readers.h"
#include "transport/codec/msgpack_value.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace understudy::transport {

inline constexpr std::size_t kWholeNestingMax = 64;

/// Runs `read(reader, problem)` over `bytes`; errors begin with `what`.
template <class Read>
Status ReadWholeMsgpack(const char* what,
                        std::string_view bytes,
                        Read read,
                        std::size_t nesting_max = kWholeNestingMax) {
  MsgpackReader reader(bytes, nesting_max);
  Problem problem;
  const bool done = read(reader, problem);
  if (reader.broken() != nullptr) {
    return Fail(Errc::kMalformed, std::string(what) + ": not msgpack: " + reader.broken());
  }
  if (!done) {
    return FailWith(what, problem.Take());
  }
  if (!reader.AtEnd()) {
    return Fail(Errc::kMalformed, std::string(what) + ": bytes after the value");
  }
  return {};
}

/// `names` in the order of their bits.
inline bool HasAllKeys(const SeenKeys& seen,
                       std::initializer_list<std::string_view> names,
                       Problem& problem) {
  unsigned bit = 0;
  for (const std::string_view name : names) {
    if (!seen.Has(bit++)) {
      return problem.Malformed(name, "missing");
    }
  }
  return true;
}

}  // namespace understudy::transport
