#include "tests/bench/loadgen/driver.h"

#include "tests/bench/loadgen/encode.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace understudy::loadgen {
namespace {

constexpr int kEventsMax = 256;
constexpr int kIdleWaitMs = 1000;
constexpr int kBacklog = 4096;

std::string LastError() {
  return std::error_code(errno, std::generic_category()).message();
}

void SetNoDelay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/// A connected, non-blocking socket, or -1 with a text on stderr.
int Dial(const std::string& host_port) {
  const std::size_t colon = host_port.rfind(':');
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(
          host_port.substr(0, colon).c_str(), host_port.c_str() + colon + 1, &hints, &found) != 0) {
    std::fprintf(stderr, "loadgen: cannot resolve %s\n", host_port.c_str());
    return -1;
  }
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    std::fprintf(
        stderr, "loadgen: cannot connect to %s: %s\n", host_port.c_str(), LastError().c_str());
    close(fd);
    fd = -1;
  } else {
    SetNoDelay(fd);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace

Driver::Driver(const Options& options) : options_(options), salt_(std::random_device{}()) {}

Driver::~Driver() {
  for (const auto& [connection, owned] : connections_) {
    if (!connection->dead) {
      close(connection->fd);
    }
  }
  if (listener_.fd >= 0) {
    close(listener_.fd);
  }
  if (epoll_ >= 0) {
    close(epoll_);
  }
  if (trace_ != nullptr) {
    std::fclose(trace_);
  }
}

bool Driver::Open() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (!options_.trace_file.empty()) {
    trace_ = std::fopen(options_.trace_file.c_str(), "w");
    if (trace_ == nullptr) {
      std::fprintf(stderr, "loadgen: cannot write %s\n", options_.trace_file.c_str());
      return false;
    }
    std::fputs("request,token,us\n", trace_);
  }
  return OpenListener() && OpenRequestConnections();
}

bool Driver::OpenListener() {
  listener_.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (inet_pton(AF_INET, options_.listen_ip.c_str(), &address.sin_addr) != 1 ||
      bind(listener_.fd, raw, size) != 0 || listen(listener_.fd, kBacklog) != 0 ||
      getsockname(listener_.fd, raw, &size) != 0) {
    std::fprintf(stderr,
                 "loadgen: cannot listen on %s: %s\n",
                 options_.listen_ip.c_str(),
                 LastError().c_str());
    return false;
  }
  listen_address_ = options_.listen_ip + ":" + std::to_string(ntohs(address.sin_port));
  Watch(&listener_, false, true);
  return true;
}

bool Driver::OpenRequestConnections() {
  const bool nats = options_.plane == Plane::kNats;
  const std::uint64_t count = nats ? 1 : options_.connections;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto owned =
        std::make_unique<Connection>(nats ? Connection::Kind::kNats : Connection::Kind::kTcp);
    owned->fd = Dial(options_.host_port);
    if (owned->fd < 0) {
      return false;
    }
    request_connections_.push_back(Adopt(std::move(owned)));
  }
  if (nats) {
    inbox_ = "_INBOX.lg" + RandomUuid().substr(0, 8);
    Queue(request_connections_[0],
          "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,"
          "\"lang\":\"cpp\",\"version\":\"1\",\"protocol\":1}\r\nSUB " +
              inbox_ + ".* 1\r\n");
  }
  return !broken_;
}

Connection* Driver::Adopt(std::unique_ptr<Connection> connection) {
  Connection* raw = connection.get();
  connections_.emplace(raw, std::move(connection));
  Watch(raw, false, true);
  return raw;
}

void Driver::Watch(Connection* connection, bool writable, bool add) {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  event.data.ptr = connection;
  epoll_ctl(epoll_, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, connection->fd, &event);
}

void Driver::Bury(Connection* connection) {
  if (!connection->dead) {
    connection->dead = true;
    close(connection->fd);
    graveyard_.push_back(connection);
  }
}

void Driver::Flush(Connection* connection) {
  while (!connection->out.empty()) {
    const ssize_t sent =
        send(connection->fd, connection->out.data(), connection->out.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      connection->out.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      Watch(connection, true, false);
      return;
    } else {
      broken_ = broken_ || connection->kind != Connection::Kind::kResponse;
      Bury(connection);
      return;
    }
  }
}

void Driver::Queue(Connection* connection, std::string_view bytes) {
  const bool idle = connection->out.empty();
  connection->out += bytes;
  if (idle) {
    Flush(connection);
  }
}

void Driver::Accept() {
  for (;;) {
    const int fd = accept4(listener_.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      return;
    }
    SetNoDelay(fd);
    auto owned = std::make_unique<Connection>(Connection::Kind::kResponse);
    owned->fd = fd;
    OnResponse(Adopt(std::move(owned)));
  }
}

void Driver::Dispatch(Connection* connection, std::uint32_t events) {
  if (!connection->dead && (events & EPOLLOUT) != 0) {
    Flush(connection);
    if (!connection->dead && connection->out.empty()) {
      Watch(connection, false, false);
    }
  }
  if (connection->dead || (events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) {
    return;
  }
  switch (connection->kind) {
    case Connection::Kind::kListen:
      return Accept();
    case Connection::Kind::kResponse:
      return OnResponse(connection);
    case Connection::Kind::kNats:
      return OnNats(connection);
    case Connection::Kind::kTcp:
      return OnTcpAcks(connection);
  }
}

/// Open loop: sends what is due. Returns how long epoll may wait, in ms.
int Driver::LaunchDue() {
  if (options_.rate <= 0 || launched_ >= to_launch_) {
    return kIdleWaitMs;
  }
  const auto due = [this] {
    return run_started_ns_ +
           static_cast<std::uint64_t>(static_cast<double>(launched_) / options_.rate * 1e9);
  };
  const std::uint64_t now = MonotonicNs();
  while (launched_ < to_launch_ && now >= due()) {
    Launch();
  }
  return launched_ < to_launch_ ? static_cast<int>((due() - now) / 1'000'000) : kIdleWaitMs;
}

RunEnd Driver::Run(std::uint64_t requests, bool measured) {
  launched_ = finished_ = in_flight_ = 0;
  nats_sent_ns_.clear();
  measuring_ = measured;
  to_launch_ = requests;
  run_started_ns_ = MonotonicNs();
  stats_.started_ns = run_started_ns_;
  const std::uint64_t deadline = run_started_ns_ + options_.timeout_s * 1'000'000'000ULL;
  if (options_.rate <= 0) {
    for (std::uint64_t i = 0; i < std::min(options_.in_flight, requests); ++i) {
      Launch();
    }
  }
  std::array<epoll_event, kEventsMax> events{};
  while (finished_ < requests) {
    const int ready = epoll_wait(epoll_, events.data(), kEventsMax, LaunchDue());
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      Dispatch(static_cast<Connection*>(event.data.ptr), event.events);
    }
    for (Connection* connection : graveyard_) {
      connections_.erase(connection);
    }
    graveyard_.clear();
    if (broken_ || MonotonicNs() > deadline) {
      std::fprintf(stderr,
                   "loadgen: %s with %llu of %llu finished\n",
                   broken_ ? "request connection lost" : "timeout",
                   static_cast<unsigned long long>(finished_),
                   static_cast<unsigned long long>(requests));
      return RunEnd::kTimeout;
    }
  }
  return RunEnd::kComplete;
}

}  // namespace understudy::loadgen
