// The real binary as a command: run to its end, or watched on a terminal of its own.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace understudy::worker {

struct CommandResult {
  int exit_code = -1;  ///< 128 + n after signal n
  std::string out, err;
};

/// Runs `understudy replay` with `arguments` and waits for its end.
[[nodiscard]] CommandResult RunReplayCommand(const std::vector<std::string>& arguments);

/// `understudy replay` with a pseudo terminal as its output and error output. It is killed at the
/// end at the latest.
class TerminalCommand {
 public:
  using Environment = std::map<std::string, std::string>;
  TerminalCommand(const std::vector<std::string>& arguments, const Environment& environment);
  ~TerminalCommand();
  TerminalCommand(const TerminalCommand&) = delete;
  TerminalCommand& operator=(const TerminalCommand&) = delete;

  /// Reads until what was shown satisfies `enough`; false when the command ended before.
  [[nodiscard]] bool ReadUntil(const std::function<bool(const std::string&)>& enough);
  void Signal(int number) const;
  /// Reads what is left and waits. As CommandResult::exit_code.
  [[nodiscard]] int WaitExit();
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  [[nodiscard]] bool ReadMore();

  pid_t pid_ = -1;
  int terminal_ = -1;
  bool reaped_ = false;
  std::string shown_;
};

[[nodiscard]] std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

}  // namespace understudy::worker
