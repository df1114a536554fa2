#include "tests/integration/worker/worker_process.h"

#include "tests/unit/transport/tcp/peer.h"
#include "understudy/base/assert.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

constexpr auto kPollStep = std::chrono::milliseconds(3);

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::size_t Entries(const std::string& folder) {
  std::error_code gone;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it(folder, gone), end; !gone && it != end;
       it.increment(gone)) {
    ++count;
  }
  return count;
}

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + WorkerProcess::kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollStep);
  }
  return true;
}

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments,
                             const Environment& environment) {
  std::vector<std::string> command = {UNDERSTUDY_BIN};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (const char* kept :
       {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(kept)) {
      variables.push_back(std::string(kept) + "=" + value);
    }
  }
  for (const auto& [name, value] : environment) {
    variables.push_back(name + "=" + value);
  }
  const auto argv = Pointers(command);
  const auto envp = Pointers(variables);
  const auto out = dir_.path() + "/out";
  const auto err = dir_.path() + "/err";
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  UNDERSTUDY_ASSERT(pid_ >= 0);
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(126);
    }
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
}

WorkerProcess::~WorkerProcess() {
  const bool awaited = exit_code_.has_value();
  if (!Reap()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  } else if (!awaited) {
    ADD_FAILURE() << "the worker ended by itself with " << *exit_code_ << ":\n" << err();
  }
  for (const auto* report : {"Sanitizer: ", "runtime error: "}) {
    if (CountErr(report) > 0) {
      ADD_FAILURE() << "the worker's sanitizer says:\n" << err();
    }
  }
}

bool WorkerProcess::Reap() {
  int status = 0;
  if (!exit_code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return exit_code_.has_value();
}

std::string WorkerProcess::ReadyLine() const {
  const auto text = out();
  const auto begin = text.find("ready instance=");
  const auto end = text.find('\n', begin == std::string::npos ? 0 : begin);
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : text.substr(begin, end - begin);
}

bool WorkerProcess::WaitReady() {
  const bool over = Eventually([this] {
    ready_ = ReadyLine();
    return !ready_.empty() || Reap();
  });
  return over && !ready_.empty();
}

std::string WorkerProcess::Ready(const std::string& field) const {
  for (const auto& part : Split(ready_, ' ')) {
    if (part.starts_with(field + "=")) {
      return part.substr(field.size() + 1);
    }
  }
  return {};
}

std::vector<std::string> WorkerProcess::Instances() const {
  return Split(Ready("instance"), ',');
}

std::string WorkerProcess::SubjectIn(const std::string& ns) const {
  const std::string rest = Ready("endpoint").substr(ns.size() + 1);  // component.endpoint
  return ns + "_" + rest + "-" + Instances().at(0);
}

std::string WorkerProcess::out() const {
  return ReadText(dir_.path() + "/out");
}
std::string WorkerProcess::err() const {
  return ReadText(dir_.path() + "/err");
}

bool WorkerProcess::WaitErr(const std::string& text) const {
  return Eventually([&] { return CountErr(text) > 0; });
}

std::size_t WorkerProcess::CountErr(const std::string& text) const {
  const auto all = err();
  std::size_t count = 0;
  for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + text.size())) {
    ++count;
  }
  return count;
}

void WorkerProcess::Signal(int number) const {
  ::kill(pid_, number);
}

std::optional<int> WorkerProcess::WaitExit() {
  static_cast<void>(Eventually([this] { return Reap(); }));
  return exit_code_;
}

bool WorkerProcess::running() {
  return !Reap();
}

WorkerProcess::Reply WorkerProcess::Get(const std::string& path) const {
  const auto address = Ready("status");
  const auto peer = address.empty() || address == "off" ? nullptr : transport::Peer::Dial(address);
  Reply reply;
  std::string text;
  if (!peer ||
      !peer->Send("GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")) {
    return reply;
  }
  peer->ReadToEnd(&text);
  const auto body = text.find("\r\n\r\n");
  if (text.starts_with("HTTP/1.1 ") && body != std::string::npos) {
    reply.status = std::atoi(text.c_str() + 9);
    reply.body = text.substr(body + 4);
  }
  return reply;
}

std::optional<double> WorkerProcess::Metric(const std::string& name,
                                            const std::string& label) const {
  std::optional<double> sum;
  for (const auto& line : Split(Get("/metrics").body, '\n')) {
    const auto end = line.find_first_of("{ ");
    const auto space = line.rfind(' ');
    if (line.substr(0, end) == name && line.find(label) != std::string::npos &&
        space != std::string::npos) {
      sum = sum.value_or(0) + std::strtod(line.c_str() + space, nullptr);
    }
  }
  return sum;
}

bool WorkerProcess::WaitMetric(const std::string& name,
                               double value,
                               const std::string& label) const {
  return Eventually([&] { return Metric(name, label) == value; });
}

bool WorkerProcess::WaitIdle() const {
  return WaitMetric("understudy_engine_requests_running", 0) &&
         WaitMetric("understudy_engine_requests_waiting", 0) &&
         WaitMetric("understudy_engine_blocks_active", 0) &&
         WaitMetric("dynamo_component_inflight_requests", 0) &&
         WaitMetric("understudy_response_streams_open", 0);
}

std::size_t WorkerProcess::threads() const {
  return Entries("/proc/" + std::to_string(pid_) + "/task");
}
std::size_t WorkerProcess::descriptors() const {
  return Entries("/proc/" + std::to_string(pid_) + "/fd");
}

std::size_t WorkerProcess::sockets() const {
  std::error_code gone;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/" + std::to_string(pid_) + "/fd", gone), end;
       !gone && it != end;
       it.increment(gone)) {
    std::error_code closed;
    const auto target = std::filesystem::read_symlink(it->path(), closed).string();
    count += target.starts_with("socket:") ? 1U : 0U;
  }
  return count;
}

std::size_t WorkerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string WorkerProcess::DumpState() const {
  const auto before = CountErr("\nstate {") + CountErr("state {");
  Signal(SIGUSR1);
  static_cast<void>(Eventually([&] {
    const auto text = err();
    return CountErr("\nstate {") + CountErr("state {") > before && text.back() == '\n';
  }));
  const auto text = err();
  const auto begin = text.rfind("state {");
  return begin == std::string::npos ? ""
                                    : text.substr(begin + 6, text.find('\n', begin) - begin - 6);
}

}  // namespace understudy::worker
