// Keys of discovery <-> names of files: `v1/<bucket>/<rest>` lives in folder `v1/<bucket>` as the
// escaped <rest>.
#pragma once

#include "understudy/base/result.h"

#include <string>
#include <string_view>

namespace understudy::transport::file {

/// Every byte but ASCII letters and digits as %XX, upper-case hex. Source: wire.md 2.6, measured
/// with 1.3.0 and 1.6.1.
[[nodiscard]] std::string EscapeName(std::string_view text);
/// Errors: kMalformed for a broken escape. A byte that would have been escaped is taken as it is.
[[nodiscard]] Result<std::string> UnescapeName(std::string_view name);

struct KeyPlace {
  std::string bucket;  ///< `v1/instances`
  std::string name;    ///< escaped file name
};
/// Errors: kMalformed for a key without two slashes, with nothing behind the second, with `.` or
/// `..` as a folder, or with a name longer than a file's may be (255 bytes).
[[nodiscard]] Result<KeyPlace> PlaceOf(std::string_view key);

}  // namespace understudy::transport::file
