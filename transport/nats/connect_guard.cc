#include "transport/nats/connect_guard.h"

#include "transport/nats/options.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace understudy::transport {
namespace {

constexpr std::uint16_t kDefaultPort = 4222;

/// 0 when `fd` is no connected TCP socket.
std::uint16_t PeerPort(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(fd, static_cast<sockaddr*>(static_cast<void*>(&peer)), &size) != 0 ||
      (peer.ss_family != AF_INET && peer.ss_family != AF_INET6)) {
    return 0;
  }
  sockaddr_in in{};  // the port stands at the same place in both families
  std::memcpy(&in, &peer, sizeof(in));
  return ntohs(in.sin_port);
}

/// `socket:[<inode>]`, or empty when `fd` is no socket (any more). Asked by name: the descriptor
/// may be another thread's.
std::string SocketName(int fd) {
  std::error_code failure;
  auto name =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), failure).string();
  return !failure && name.starts_with("socket:") ? name : std::string();
}

}  // namespace

std::vector<std::uint16_t> NatsPorts(std::string_view urls) {
  std::vector<std::uint16_t> ports;
  const auto split = SplitNatsUrls(urls);
  for (const std::string_view url : split ? *split : std::vector<std::string>()) {
    const auto colon = url.rfind(':');
    const auto digits = url.substr(colon + 1);
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    ports.push_back(error == std::errc() && port != 0 ? port : kDefaultPort);
  }
  return ports;
}

void EndPendingConnects(const std::vector<std::uint16_t>& server_ports) {
  std::map<std::string, std::vector<int>> sockets;
  std::error_code failure;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", failure);
       !failure && it != std::filesystem::directory_iterator();
       it.increment(failure)) {
    const auto name = it->path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (auto socket = SocketName(fd); !socket.empty()) {
      sockets[std::move(socket)].push_back(fd);
    }
  }
  for (const auto& [socket, descriptors] : sockets) {
    const int fd = descriptors.front();
    if (descriptors.size() == 1 &&
        std::count(server_ports.begin(), server_ports.end(), PeerPort(fd)) > 0 &&
        SocketName(fd) == socket) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }
}

}  // namespace understudy::transport
