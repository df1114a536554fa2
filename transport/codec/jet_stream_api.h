// Requests to and answers from the JetStream API of a NATS server (JSON).
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::transport {

/// As the reference's worker makes it. Source: events.md 3.2.
struct StreamConfig {
  std::string name;
  std::uint64_t max_age_s = 3600;
};
/// Body of `$JS.API.STREAM.CREATE.<name>`: subjects `<name>.*`, limits retention, in files.
[[nodiscard]] std::string EncodeStreamConfig(const StreamConfig& config);

/// `error` of an answer or of a publish acknowledgement; nothing when all went well. kMalformed:
/// not JSON.
struct JetStreamError {
  std::uint64_t code = 0;      ///< like HTTP: 404 = no such stream
  std::uint64_t err_code = 0;  ///< the server's own
  std::string description;
};
[[nodiscard]] Result<std::optional<JetStreamError>> ParseJetStreamReply(std::string_view json);

}  // namespace understudy::transport
