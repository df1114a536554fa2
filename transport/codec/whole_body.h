// Reads one value in either codec that fills all of its bytes.
#pragma once

#include "transport/codec/json_value.h"
#include "transport/codec/whole_msgpack.h"
#include "understudy/transport/codec.h"

#include <cstddef>
#include <string_view>
#include <utility>

namespace understudy::transport {

/// Runs `read(value, problem)` over the body, with a JsonValue or a MsgpackReader; errors begin
/// with `what`.
template <class Read>
Status ReadWholeBody(PayloadCodec codec,
                     const char* what,
                     std::string_view body,
                     Read read,
                     std::size_t nesting_max = kWholeNestingMax) {
  if (codec != PayloadCodec::kJson) {
    return ReadWholeMsgpack(what, body, read, nesting_max);
  }
  auto json = ParseJson(body, nesting_max);
  if (!json) {
    return FailWith(what, std::move(json).error());
  }
  Problem problem;
  if (!read(*json, problem)) {
    return FailWith(what, problem.Take());
  }
  return {};
}

}  // namespace understudy::transport
