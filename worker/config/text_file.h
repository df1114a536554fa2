// Small files that an operator names.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <string>

namespace understudy::worker {

/// The whole content. kInvalidConfig: cannot be read, or more than `bytes_max`; the text does not
/// name the file.
[[nodiscard]] Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max);

}  // namespace understudy::worker
