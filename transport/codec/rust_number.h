// Floating point numbers as Rust programs write them.
#pragma once

#include <string>

namespace understudy::transport {

/// In JSON (serde_json): 64.0, 0.01, 1e16, 1.5e-7. `number` must be finite.
[[nodiscard]] std::string RustJsonNumber(double number);
/// In debug texts ({:?}): the same, but from 1e-4 on without an exponent.
[[nodiscard]] std::string RustDebugNumber(double number);

}  // namespace understudy::transport
