// Which flag sets a field of the engine's arguments.
#pragma once

#include <string>
#include <string_view>

namespace understudy::worker {

/// `message` with the flag of the first field that it names behind it; as it is when it names none.
[[nodiscard]] std::string WithFlag(const std::string& message);

}  // namespace understudy::worker
