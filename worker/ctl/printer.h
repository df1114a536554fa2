// What `understudy ctl` writes to stdout: text for people, or JSON lines.
#pragma once

#include "understudy/transport/worker_control.h"

#include <cstdint>
#include <string>

namespace understudy::worker {

/// One or more lines, without the last line break.
[[nodiscard]] std::string DescribeControlItem(std::uint64_t instance,
                                              const transport::ControlCommand& command,
                                              const transport::ControlItem& item);
/// One line: the item with its instance, members as on the wire.
[[nodiscard]] std::string ControlItemJson(std::uint64_t instance,
                                          const transport::ControlCommand& command,
                                          const transport::ControlItem& item);

}  // namespace understudy::worker
