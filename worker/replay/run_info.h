// What the reports of an offline replay say about the run besides its figures.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace understudy::worker {

struct ReplayRunInfo {
  std::string title;         ///< for example the name of the trace
  std::string command_line;  ///< as it can be given to a shell again
  std::string version;       ///< of understudy
  std::uint64_t seed = 0;
  /// Name and value of what the run was made of, in the order in which a reader wants them.
  std::vector<std::pair<std::string, std::string>> configuration;
};

}  // namespace understudy::worker
