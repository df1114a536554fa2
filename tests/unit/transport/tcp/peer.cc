#include "tests/unit/transport/tcp/peer.h"

#include "understudy/base/assert.h"
#include "understudy/transport/response_stream.h"

#include <arpa/inet.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace understudy::transport {
namespace {

bool Wait(int fd, short what) {
  pollfd one{fd, what, 0};
  return ::poll(&one, 1, Peer::kLimitMs) == 1;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }
};

Address Loopback(bool v6, std::uint16_t port) {
  Address address;
  if (v6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_addr = in6addr_loopback;
    in.sin6_port = htons(port);
    address.size = sizeof(in);
    std::memcpy(&address.storage, &in, sizeof(in));
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port);
    address.size = sizeof(in);
    std::memcpy(&address.storage, &in, sizeof(in));
  }
  return address;
}

}  // namespace

std::unique_ptr<Peer> Peer::Dial(const std::string& address) {
  const auto parsed = ParseHostPort(address);
  UNDERSTUDY_ASSERT(parsed);
  const bool v6 = parsed->host.find(':') != std::string::npos;
  const int fd = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto peer = std::make_unique<Peer>(fd);
  auto to = Loopback(v6, parsed->port);
  return ::connect(fd, to.get(), to.size) == 0 ? std::move(peer) : nullptr;
}

std::string Peer::Read(std::size_t bytes) {
  std::string text;
  std::string buffer(64U << 10, '\0');
  while (text.size() < bytes && Wait(fd_, POLLIN)) {
    const auto n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n <= 0) {
      break;
    }
    text.append(buffer, 0, static_cast<std::size_t>(n));
  }
  return text;
}

Peer::End Peer::ReadToEnd(std::string* rest) {
  std::string buffer(64U << 10, '\0');
  while (Wait(fd_, POLLIN)) {
    const auto n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n == 0) {
      return End::kFin;
    }
    if (n < 0) {
      return End::kReset;
    }
    if (rest != nullptr) {
      rest->append(buffer, 0, static_cast<std::size_t>(n));
    }
  }
  return End::kNothing;
}

bool Peer::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void Peer::Close() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

void Peer::Reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

void Peer::HalfClose() {
  ::shutdown(fd_, SHUT_WR);
}

std::uint32_t Peer::DataSegmentsIn() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  UNDERSTUDY_ASSERT(::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
  return info.tcpi_data_segs_in;
}

PeerListener::PeerListener(bool v6, int receive_buffer)
    : fd_(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), v6_(v6) {
  if (receive_buffer > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  auto address = Loopback(v6, 0);
  UNDERSTUDY_ASSERT(::bind(fd_, address.get(), address.size) == 0);
  UNDERSTUDY_ASSERT(::listen(fd_, 128) == 0);
  UNDERSTUDY_ASSERT(::getsockname(fd_, address.get(), &address.size) == 0);
  sockaddr_in in{};  // the port stands at the same place in both families
  std::memcpy(&in, &address.storage, sizeof(in));
  port_ = ntohs(in.sin_port);
}

PeerListener::~PeerListener() {
  ::close(fd_);
}

std::string PeerListener::address() const {
  return (v6_ ? "::1:" : "127.0.0.1:") + std::to_string(port_);
}

std::unique_ptr<Peer> PeerListener::Accept() {
  if (!Wait(fd_, POLLIN)) {
    return nullptr;
  }
  return std::make_unique<Peer>(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

std::size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace understudy::transport
