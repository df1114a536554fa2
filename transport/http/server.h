// ServeHttp with limits that a test may lower. Private to this folder and its tests.
#pragma once

#include "understudy/transport/http_server.h"

namespace understudy::transport::http {

struct Limits {
  std::size_t connections_max = HttpServer::kConnectionsMax;
  /// For a whole request to arrive, counted from the accept or the last answer, and for an answer
  /// to be taken.
  Nanoseconds idle = HttpServer::kIdleLimit;
};

[[nodiscard]] Result<std::unique_ptr<HttpServer>> Serve(
    Loop& loop,
    const std::string& host,
    std::uint16_t port,
    std::function<HttpResponse(const HttpRequest&)> handler,
    Limits limits);

}  // namespace understudy::transport::http
