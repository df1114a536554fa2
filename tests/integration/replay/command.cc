#include "tests/integration/replay/command.h"

#include "tests/fakes/server_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

constexpr unsigned short kColumns = 100;

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child. What sanitizers read goes along.
[[noreturn]] void Become(const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::string> command = {UNDERSTUDY_BIN, "replay"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) {
    variables.push_back(name + "=" + value);
  }
  for (const char* kept : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(kept)) {
      variables.push_back(std::string(kept) + "=" + value);
    }
  }
  ::execve(UNDERSTUDY_BIN, Pointers(command).data(), Pointers(variables).data());
  ::_exit(127);
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

CommandResult RunReplayCommand(const std::vector<std::string>& arguments) {
  const fakes::TempDir folder;
  const auto out = folder.path() + "/out";
  const auto err = folder.path() + "/err";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    Become(arguments, {});
  }
  const int exit_code = Reap(pid);
  return {exit_code, ReadText(out), ReadText(err)};
}

TerminalCommand::TerminalCommand(const std::vector<std::string>& arguments,
                                 const Environment& environment) {
  winsize size{};
  size.ws_col = kColumns;
  size.ws_row = 24;
  pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ == 0) {
    Become(arguments, environment);
  }
  EXPECT_GT(pid_, 0);
}

TerminalCommand::~TerminalCommand() {
  if (!reaped_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    Reap(pid_);
  }
  ::close(terminal_);
}

bool TerminalCommand::ReadMore() {
  std::array<char, 4096> bytes{};
  const auto got = ::read(terminal_, bytes.data(), bytes.size());
  if (got > 0) {
    shown_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return got > 0 || (got < 0 && errno == EINTR);  // EIO: the other side is closed
}

bool TerminalCommand::ReadUntil(const std::function<bool(const std::string&)>& enough) {
  while (!enough(shown_)) {
    if (!ReadMore()) {
      return enough(shown_);
    }
  }
  return true;
}

void TerminalCommand::Signal(int number) const {
  ::kill(pid_, number);
}

int TerminalCommand::WaitExit() {
  while (ReadMore()) {
  }
  reaped_ = true;
  return Reap(pid_);
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace understudy::worker
