#include "transport/etcd/http_request.h"

#include <algorithm>
#include <charconv>

namespace understudy::transport::etcd {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

bool ParsePort(std::string_view digits, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port != 0;
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
bool ParseAuthority(std::string_view text, HttpUrl& url) {
  std::string_view rest;
  if (text.substr(0, 1) == "[") {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) {
      return false;
    }
    url.host = text.substr(1, bracket - 1);
    rest = text.substr(bracket + 1);
  } else {
    const auto colon = text.find(':');
    url.host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (url.host.empty()) {
    return false;
  }
  return rest.empty() || (rest.front() == ':' && ParsePort(rest.substr(1), url.port));
}

}  // namespace

Result<HttpUrl> ParseHttpUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [whole = std::string(url)] {
    return Fail(Errc::kInvalidConfig, "'" + whole + "': want http://host:port");
  };
  const bool blank =
      std::any_of(url.begin(), url.end(), [](char c) { return c == ' ' || IsControl(c); });
  if (url.substr(0, kScheme.size()) != kScheme || blank) {
    return bad();
  }
  url.remove_prefix(kScheme.size());
  const auto slash = url.find_first_of("/?#");
  HttpUrl parts;
  parts.authority = url.substr(0, slash);
  parts.target = slash == std::string_view::npos ? "/" : url.substr(slash);
  if (parts.target.front() != '/' || parts.authority.find('@') != std::string::npos ||
      !ParseAuthority(parts.authority, parts)) {
    return bad();
  }
  return parts;
}

Result<std::string> PostHead(const HttpUrl& url,
                             const std::string& authorization,
                             std::size_t body_bytes) {
  if (std::any_of(authorization.begin(), authorization.end(), IsControl)) {
    return Fail(Errc::kMalformed, "a control character in the token");
  }
  std::string head = "POST " + url.target + " HTTP/1.1\r\nHost: " + url.authority +
                     "\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body_bytes) + "\r\n";
  if (!authorization.empty()) {
    head += "Authorization: " + authorization + "\r\n";
  }
  return head + "\r\n";
}

}  // namespace understudy::transport::etcd
