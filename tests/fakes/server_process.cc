#include "tests/fakes/server_process.h"

#include "understudy/base/assert.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <random>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace understudy::fakes {
namespace {

constexpr int kStartTries = 5;
constexpr auto kPollStep = std::chrono::milliseconds(5);
constexpr int kProbeLimitMs = 500;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// Polls `condition` until it holds (true) or `limit` is over (false).
bool WaitFor(Nanoseconds limit, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollStep);
  }
  return true;
}

/// Connects, sends `request`, and returns the first bytes of the answer; empty when nothing came.
std::string Ask(std::uint16_t port, const std::string& request, const std::string& until) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  sockaddr generic{};
  std::memcpy(&generic, &address, sizeof(address));
  if (::connect(fd.get(), &generic, sizeof(address)) != 0) {
    return {};
  }
  if (!request.empty() && ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return {};
  }
  std::string answer;
  char bytes[1024];
  pollfd readable{fd.get(), POLLIN, 0};
  while (answer.find(until) == std::string::npos && ::poll(&readable, 1, kProbeLimitMs) == 1) {
    const ssize_t size = ::recv(fd.get(), bytes, sizeof(bytes), 0);
    if (size <= 0) {
      break;
    }
    answer.append(bytes, static_cast<std::size_t>(size));
  }
  return answer;
}

}  // namespace

Result<std::uint16_t> FreePorts(std::uint16_t count) {
  constexpr std::uint32_t kFirst = 10'000;
  constexpr std::uint32_t kEnd = 32'000;  // connections get 32768 and above
  constexpr int kTriesMax = 1000;
  std::random_device random;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const auto base = static_cast<std::uint16_t>(kFirst + random() % (kEnd - kFirst - count));
    std::vector<std::unique_ptr<Fd>> held;
    for (std::uint16_t i = 0; i < count && held.size() == i; ++i) {
      auto fd = std::make_unique<Fd>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = Loopback(static_cast<std::uint16_t>(base + i));
      address.sin_addr.s_addr = htonl(INADDR_ANY);
      sockaddr generic{};
      std::memcpy(&generic, &address, sizeof(address));
      if (::bind(fd->get(), &generic, sizeof(address)) == 0) {
        held.push_back(std::move(fd));
      }
    }
    if (held.size() == count) {
      return base;
    }
  }
  return Fail(Errc::kUnavailable, "no " + std::to_string(count) + " free ports in a row");
}

Result<std::uint16_t> FreePort() {
  return FreePorts(1);
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "understudy.XXXXXX").string();
  UNDERSTUDY_ASSERT(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ServerProcess::ServerProcess(Kind kind, std::vector<std::string> extra)
    : kind_(kind), extra_(std::move(extra)) {}

ServerProcess::~ServerProcess() {
  Kill();
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::Nats(std::vector<std::string> extra) {
  return New(Kind::kNats, std::move(extra));
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::Etcd(std::vector<std::string> extra) {
  return New(Kind::kEtcd, std::move(extra));
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::New(Kind kind,
                                                          std::vector<std::string> extra) {
  std::string last_error;
  // Between finding a free port and the server's bind somebody else may take it: then other ports
  // are tried.
  for (int i = 0; i < kStartTries; ++i) {
    std::unique_ptr<ServerProcess> server(new ServerProcess(kind, extra));
    UNDERSTUDY_TRY(server->port_, FreePort());
    UNDERSTUDY_TRY(server->peer_port_, FreePort());
    if (auto status = server->Launch(); status) {
      return server;
    } else {
      last_error = status.error().message;
    }
  }
  return Fail(Errc::kUnavailable, last_error);
}

std::string ServerProcess::url() const {
  return (kind_ == Kind::kNats ? "nats://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
}

std::string ServerProcess::log() const {
  std::ifstream file(dir_.path() + "/log");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ServerProcess::DataPath() const {
  return dir_.path() + "/data";
}

std::vector<std::string> ServerProcess::Command() const {
  std::vector<std::string> command;
  if (kind_ == Kind::kNats) {
    command = {"nats-server", "-a", "127.0.0.1", "-p", std::to_string(port_), "-sd", DataPath()};
  } else {
    const std::string peer = "http://127.0.0.1:" + std::to_string(peer_port_);
    command = {"etcd",
               "--name=test",
               "--data-dir=" + DataPath(),
               "--listen-client-urls=" + url(),
               "--advertise-client-urls=" + url(),
               "--listen-peer-urls=" + peer,
               "--initial-advertise-peer-urls=" + peer,
               "--initial-cluster=test=" + peer,
               "--heartbeat-interval=50",
               "--election-timeout=500",
               "--logger=zap",
               "--log-level=error"};
  }
  command.insert(command.end(), extra_.begin(), extra_.end());
  return command;
}

Status ServerProcess::Launch() {
  std::vector<std::string> command = Command();
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  // nats-server lives in /usr/sbin, which is not on every user's path. Prepared here: the child may
  // only exec.
  const char* path = std::getenv("PATH");
  std::string search = "PATH=" + std::string(path == nullptr ? "" : path) + ":/usr/sbin:/usr/bin";
  const std::string log_path = dir_.path() + "/log";
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    return Fail(Errc::kInternal, std::string("fork: ") + std::strerror(errno));
  }
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(126);
    }
    const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::putenv(search.data());
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);  // both sides set it, so it holds whoever runs first
  bool ended = false;
  const bool ready = WaitFor(kReadyLimit, [&] {
    ended = Reap(Nanoseconds(0));
    return ended || Ready();
  });
  if (!ready || ended) {
    const std::string text = log();
    Kill();
    return Fail(Errc::kUnavailable,
                command[0] + (ended ? " ended at start: " : " did not get ready: ") +
                    text.substr(text.size() > 2000 ? text.size() - 2000 : 0));
  }
  return {};
}

bool ServerProcess::Ready() const {
  if (kind_ == Kind::kNats) {
    return Ask(port_, "", "\r\n").rfind("INFO {", 0) == 0;
  }
  const std::string answer = Ask(
      port_, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "\"true\"");
  return answer.find("\"health\":\"true\"") != std::string::npos;
}

bool ServerProcess::Reap(Nanoseconds limit) {
  if (pid_ < 0) {
    return true;
  }
  const bool ended = WaitFor(limit, [this] {
    int ignored = 0;
    const pid_t found = ::waitpid(pid_, &ignored, WNOHANG);
    return found == pid_ || (found < 0 && errno == ECHILD);
  });
  if (ended) {
    pid_ = -1;
  }
  return ended;
}

void ServerProcess::Pause() {
  UNDERSTUDY_ASSERT(pid_ > 0);
  ::kill(pid_, SIGSTOP);
  int ignored = 0;
  ::waitpid(pid_, &ignored, WUNTRACED);
}

void ServerProcess::Resume() {
  UNDERSTUDY_ASSERT(pid_ > 0);
  ::kill(pid_, SIGCONT);
}

void ServerProcess::Kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    UNDERSTUDY_ASSERT(Reap(kStopLimit));
  }
}

void ServerProcess::Stop() {
  if (pid_ > 0) {
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGTERM);
    if (!Reap(kStopLimit)) {
      Kill();
    }
  }
}

void ServerProcess::WipeData() {
  UNDERSTUDY_ASSERT(pid_ < 0);
  std::filesystem::remove_all(DataPath());
}

Status ServerProcess::Restart() {
  UNDERSTUDY_ASSERT(pid_ < 0);
  return Launch();
}

}  // namespace understudy::fakes
