// Standard base64 with padding, the form that etcd's JSON gateway takes (RFC 4648 section 4).
#pragma once

#include "understudy/base/result.h"

#include <string>
#include <string_view>

namespace understudy::transport::etcd {

[[nodiscard]] std::string Base64Encode(std::string_view bytes);

/// Errors: kMalformed for a length that is no multiple of four, a byte outside the alphabet, or
/// padding anywhere but at the end.
[[nodiscard]] Result<std::string> Base64Decode(std::string_view text);

}  // namespace understudy::transport::etcd
