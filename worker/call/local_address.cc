#include "worker/call/local_address.h"

#include "understudy/transport/response_stream.h"

#include <array>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace understudy::worker {
namespace {

constexpr std::string_view kDefaultPort = ":4222";

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

/// A datagram socket that is only connected, never written: the kernel picks the route and with it
/// our address.
Result<std::string> SourceOf(const addrinfo& target) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&own));
  const bool known = fd >= 0 && ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(fd, generic, &size) == 0;
  const int error = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  std::array<char, NI_MAXHOST> text{};
  if (!known) {
    return Fail(Errc::kUnavailable, std::generic_category().message(error));
  }
  if (::getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return Fail(Errc::kUnavailable, "the local address has no text form");
  }
  return std::string(text.data());
}

}  // namespace

Result<std::string> LocalAddressTowards(std::string_view nats_urls) {
  auto server = nats_urls.substr(0, nats_urls.find(','));
  if (const auto scheme = server.find("://"); scheme != std::string_view::npos) {
    server.remove_prefix(scheme + 3);
  }
  if (const auto user = server.rfind('@'); user != std::string_view::npos) {
    server.remove_prefix(user + 1);
  }
  server = server.substr(0, server.find_first_of("/ \t"));
  std::string address(server);
  const bool bare_v6 = server.starts_with('[') && server.ends_with(']');
  if (bare_v6 || server.find(':') == std::string_view::npos) {
    address += kDefaultPort;
  }
  UNDERSTUDY_TRY(const auto place, transport::ParseHostPort(address));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* raw = nullptr;
  if (const int failure =
          ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &raw);
      failure != 0) {
    return Fail(Errc::kUnavailable,
                "NATS server host '" + place.host + "': " + ::gai_strerror(failure));
  }
  const Addresses list(raw);
  Result<std::string> last = Fail(Errc::kUnavailable, "no address");
  for (const auto* one = list.get(); one != nullptr; one = one->ai_next) {
    if (last = SourceOf(*one); last) {
      return last;
    }
  }
  return FailWith("NATS server host '" + place.host + "'", last.error());
}

Result<std::string> CallbackHost(const std::optional<std::string>& listen_host,
                                 std::string_view nats_urls) {
  if (listen_host) {
    return *listen_host;
  }
  auto host = LocalAddressTowards(nats_urls);
  if (!host) {
    return FailWith("no address for workers to call back (--listen-host sets one)", host.error());
  }
  return host;
}

}  // namespace understudy::worker
