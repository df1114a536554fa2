// Which of our addresses a peer can call back.
#pragma once

#include "understudy/base/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace understudy::worker {

/// The source address that the kernel would use towards the first server of a NATS URL list
/// (nats://host:port, port optional), as text without brackets. Resolves names (blocks; call it
/// before the loop runs). kUnavailable names the host.
[[nodiscard]] Result<std::string> LocalAddressTowards(std::string_view nats_urls);

/// What workers are told to call: `listen_host`, else the address above. The error names the
/// option.
[[nodiscard]] Result<std::string> CallbackHost(const std::optional<std::string>& listen_host,
                                               std::string_view nats_urls);

}  // namespace understudy::worker
