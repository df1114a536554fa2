// What a POST looks like on the wire, and where it goes. Pure.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace understudy::transport::etcd {

/// Parts of `http://host[:port][/path]`; IPv6 addresses stand in brackets.
struct HttpUrl {
  static constexpr std::uint16_t kDefaultPort = 80;

  std::string authority;  ///< as written: the Host header, and what tells connections apart
  std::string host;       ///< without brackets
  std::uint16_t port = kDefaultPort;
  std::string target;  ///< begins with a slash
};

/// kInvalidConfig with the url: another scheme, no host, a bad port, user:password@, blanks.
[[nodiscard]] Result<HttpUrl> ParseHttpUrl(std::string_view url);

/// The header of a POST of `body_bytes` bytes of JSON. `authorization` empty = no such line;
/// kMalformed when it holds a control character, which could end the line.
[[nodiscard]] Result<std::string> PostHead(const HttpUrl& url,
                                           const std::string& authorization,
                                           std::size_t body_bytes);

}  // namespace understudy::transport::etcd
