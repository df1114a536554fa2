// Requests that a worker answers on a stream of its own: it is told where to call.
#pragma once

#include "understudy/transport/codec.h"
#include "understudy/transport/nats.h"

#include <optional>
#include <string>
#include <string_view>

namespace understudy::worker {

struct Callback {
  std::string request_id;
  std::string address;  ///< of our listener, host:port
  std::string subject;  ///< by which the worker's handshake names this request
};

/// The frame for the worker's subject; `body` is encoded in `codec`.
[[nodiscard]] std::string CallbackRequest(const Callback& callback,
                                          transport::PayloadCodec codec,
                                          std::string_view body);

/// What an acknowledgement without payload says when nobody listens on `subject`; nothing when
/// somebody does.
[[nodiscard]] std::optional<std::string> NobodyListens(
    const transport::NatsMessage& acknowledgement, const std::string& subject);

}  // namespace understudy::worker
