// One line per check.
#pragma once

#include "understudy/base/result.h"

#include <string>

namespace understudy::mocker {

/// kInvalidConfig with `text` unless it `holds`.
[[nodiscard]] inline Status Require(bool holds, std::string text) {
  if (!holds) {
    return Fail(Errc::kInvalidConfig, std::move(text));
  }
  return {};
}

}  // namespace understudy::mocker
