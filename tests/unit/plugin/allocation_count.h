// Counts what a test allocates.
#pragma once

#include <cstdint>

namespace understudy::mocker {

/// Calls of operator new by this thread so far. Linking the .cc file replaces the operator.
[[nodiscard]] std::uint64_t AllocationCount();

}  // namespace understudy::mocker
