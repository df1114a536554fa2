// Random names for requests.
#pragma once

#include <string>

namespace understudy::worker {

/// A version 4 UUID in its usual text form.
[[nodiscard]] std::string NewUuid();

}  // namespace understudy::worker
