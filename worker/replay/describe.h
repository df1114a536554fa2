// What a replay is made of, in words for its reports.
#pragma once

#include "worker/replay/options.h"
#include "worker/replay/run_info.h"

#include <string>
#include <vector>

namespace understudy::worker {

/// `arguments` as given to the subcommand. The plan's engines are set.
[[nodiscard]] ReplayRunInfo DescribeReplay(const ReplayPlan& plan,
                                           const std::vector<std::string>& arguments);

/// The words of a command line, quoted where a POSIX shell needs it.
[[nodiscard]] std::string ShellWords(const std::vector<std::string>& words);

}  // namespace understudy::worker
