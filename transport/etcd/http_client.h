// HTTP/1.1 POSTs with libcurl, driven by the loop. Connections are kept and used again.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <functional>
#include <memory>
#include <string>

namespace understudy::transport::etcd {

struct HttpReply {
  int status = 0;
  std::string body;
};

/// All members on the loop's thread; none blocks (names are resolved on libcurl's own thread).
class HttpClient {
 public:
  static constexpr std::size_t kReplyBytesMax = 64U << 20;
  static constexpr std::size_t kCallsMax = 256;
  static constexpr std::size_t kIdleHandlesMax = 4;
  static constexpr long kConnectionsKept = 4;

  using Done = std::function<void(Result<HttpReply>)>;

  explicit HttpClient(Loop& loop);
  /// Drops the calls under way; their `done` is not called.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  struct Call {
    std::string url;            ///< http:// only
    std::string body;           ///< JSON
    std::string authorization;  ///< value of the Authorization header; empty = no header
    Nanoseconds timeout{};      ///< for everything: resolve, connect, send, answer
  };
  /// `done` is called once, later, on the loop; it may start further calls. Errors: kTimeout,
  /// kUnavailable (not reached, connection broken), kMalformed (an answer beyond kReplyBytesMax),
  /// kOverloaded (kCallsMax under way).
  void Post(Call call, Done done);

 private:
  struct Core;
  std::shared_ptr<Core>
      core_;  // shared with socket waits that asio still holds when the client is gone
};

}  // namespace understudy::transport::etcd
