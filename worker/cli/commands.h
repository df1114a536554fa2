// Subcommands of the `understudy` program. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 lease
// lost (worker).
#pragma once

#include <string>
#include <vector>

namespace understudy::worker {

/// `arguments` without the program's name; `worker` is the default when the first one is a flag, or
/// there is none.
[[nodiscard]] int Main(const std::vector<std::string>& arguments);

[[nodiscard]] int WorkerCommand(const std::vector<std::string>& arguments);
[[nodiscard]] int CallCommand(const std::vector<std::string>& arguments);
[[nodiscard]] int CtlCommand(const std::vector<std::string>& arguments);
[[nodiscard]] int RelayCommand(const std::vector<std::string>& arguments);
[[nodiscard]] int ReplayCommand(const std::vector<std::string>& arguments);

}  // namespace understudy::worker
