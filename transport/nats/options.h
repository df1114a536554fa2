// NatsOptions -> the library's options.
#pragma once

#include "transport/nats/link.h"
#include "understudy/base/result.h"
#include "understudy/transport/nats.h"

#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// kInvalidConfig names the URL and what is allowed.
[[nodiscard]] Result<NatsOptionsPtr> BuildNatsOptions(const NatsOptions& options);
/// Comma list without blanks around the parts; every part must be nats://. kInvalidConfig
/// otherwise.
[[nodiscard]] Result<std::vector<std::string>> SplitNatsUrls(std::string_view url);
/// Not empty, no white space, no empty token ("a..b").
[[nodiscard]] bool ValidSubject(std::string_view subject);
/// The same, and the wildcard `>` only as the last token: the server ends a connection that
/// subscribes to anything else.
[[nodiscard]] bool ValidSubscription(std::string_view subject);

}  // namespace understudy::transport
