// A small HTTP/1.1 server on the loop, for the status routes.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace understudy::transport {

struct HttpRequest {
  std::string method;
  std::string path;  ///< percent-decoded, without the query
  std::string query;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};

class HttpServer {
 public:
  static constexpr std::size_t kHeaderBytesMax = 16U << 10;
  static constexpr std::size_t kBodyBytesMax = 1U << 20;
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr Nanoseconds kIdleLimit = std::chrono::seconds(30);

  virtual ~HttpServer() = default;
  [[nodiscard]] virtual std::string address() const = 0;  ///< host:port it listens on
};

/// `handler` runs on the loop and answers at once. Errors: kUnavailable when the address cannot be
/// bound (text names it). Malformed or oversized requests get 400, 413 or 431 and are closed;
/// keep-alive and HEAD are served.
[[nodiscard]] Result<std::unique_ptr<HttpServer>> ServeHttp(
    Loop& loop,
    const std::string& host,
    std::uint16_t port,
    std::function<HttpResponse(const HttpRequest&)> handler);

}  // namespace understudy::transport
