#include "understudy/transport/response_stream.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <string>

namespace understudy::transport {
namespace {

/// A host with colons must be an IPv6 address, with or without a zone ("fe80::1%eth0"): "::1" alone
/// is not port 1 of ":".
bool ValidHost(std::string_view host) {
  const auto bad = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7F || c == '[' || c == ']' || c == '/';
  };
  if (host.empty() || std::any_of(host.begin(), host.end(), bad)) {
    return false;
  }
  if (host.find(':') == std::string_view::npos) {
    return true;
  }
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, std::string(host.substr(0, host.find('%'))).c_str(), &ignored) == 1;
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view address) {
  const auto refuse = [&](const char* why) {
    return Fail(Errc::kMalformed, "address '" + std::string(address.substr(0, 256)) + "': " + why);
  };
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) {
    return refuse("no port, expected host:port");
  }
  auto host = address.substr(0, colon);
  const auto digits = address.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || port > 65535) {
    return refuse("the port must be 1..65535");
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  if (!ValidHost(host)) {
    return refuse("bad host");
  }
  return HostPort{std::string(host), static_cast<std::uint16_t>(port)};
}

}  // namespace understudy::transport
