// Ports given as a list, one base port per worker.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace understudy::worker {

/// `text`: whole numbers from `lowest` to 65535, separated by commas, as many as there are workers.
/// Empty when the text is. kInvalidConfig: for another count the text of dynamo.mocker 1.3.0, else
/// the option, the entry and what is allowed.
[[nodiscard]] Result<std::vector<std::uint16_t>> ParsePortList(const std::string& option,
                                                               const std::string& text,
                                                               std::uint32_t workers,
                                                               std::uint16_t lowest = 1);

/// Consecutive ports that belong to one base port.
struct PortRange {
  std::string option;  ///< for the message
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};
/// kInvalidConfig: a port is outside 1..65535, or two ranges overlap (both are named).
[[nodiscard]] Status CheckPortRanges(std::span<const PortRange> ranges);

}  // namespace understudy::worker
