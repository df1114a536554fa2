// HTTP/1.1 POSTs on the loop. Connections are kept and used again.
#pragma once

#include "transport/etcd/http_response.h"
#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/loop.h"

#include <functional>
#include <memory>
#include <string>

namespace understudy::transport::etcd {

/// All members on the loop's thread; none blocks (names are resolved on a thread of asio's).
/// Small and our own: libcurl with what it loads was a third of the worker's memory.
class HttpClient {
 public:
  static constexpr std::size_t kReplyBytesMax = ResponseParser::kBodyBytesMax;
  static constexpr std::size_t kCallsMax = 256;
  static constexpr std::size_t kConnectionsKept = 4;  ///< without a call, over all hosts
  /// A connection that rested longer is not used again: something between may have forgotten it.
  static constexpr Nanoseconds kConnectionIdleMax = std::chrono::minutes(2);

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
  /// `done` is called once, later, on the loop; it may start further calls and destroy the client.
  /// Errors: kTimeout, kUnavailable (not reached, connection broken, no HTTP), kMalformed (an
  /// answer beyond kReplyBytesMax), kOverloaded (kCallsMax under way), kInvalidConfig (the url). A
  /// call that met a kept connection which the server had closed is sent once more on a new one; so
  /// a call must bear being done twice.
  void Post(Call call, Done done);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // posts and answers on their way hold it weakly
};

}  // namespace understudy::transport::etcd
