// Calls to an etcd cluster: picks the endpoint, fetches and renews the token, tells refusals from
// silence.
#pragma once

#include "transport/etcd/http_client.h"
#include "transport/etcd/messages.h"
#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace understudy::transport::etcd {

/// The server's answer: a body at 200, otherwise a refusal.
struct Answer {
  int status = 0;
  std::string body;
  Refusal refusal;

  [[nodiscard]] bool ok() const { return status == 200; }
};

/// All members on the loop's thread. Destroying it drops the calls under way without calling back.
class Gateway {
 public:
  using Done = std::function<void(Result<Answer>)>;

  Gateway(Loop& loop, EtcdOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// kInvalidConfig for an endpoint that is not http://, a missing one, or a user without password.
  [[nodiscard]] Status Check() const;

  enum class Auth : std::uint8_t { kToken, kNone };

  /// POSTs `body` to `path`. An endpoint that is silent, broken or answers 5xx hands over to the
  /// next; each is tried once, `limit` is for all together. With Auth::kToken and a user, a token
  /// is fetched first and once anew when the server asks for it (wire.md 1.2). Errors: kUnavailable
  /// or kTimeout naming the last address; kInvalidConfig when the server refuses user or password;
  /// kMalformed. Any other refusal is an Answer.
  void Call(std::string_view path, std::string body, Auth auth, Nanoseconds limit, Done done);

  /// All endpoints, for messages: `http://a:2379,http://b:2379`.
  [[nodiscard]] std::string addresses() const;

 private:
  struct Pending;
  using PendingPtr = std::shared_ptr<Pending>;

  void Step(const PendingPtr& call);
  void Authenticate(const PendingPtr& call);
  void OnToken(const PendingPtr& call, Result<HttpReply> reply);
  void Send(const PendingPtr& call);
  void OnReply(const PendingPtr& call, Result<HttpReply> reply);
  void NextEndpoint(const PendingPtr& call, Error error);
  [[nodiscard]] std::string Url(const PendingPtr& call, std::string_view path);

  EtcdOptions options_;
  std::string token_;
  std::size_t preferred_ = 0;  ///< the endpoint that worked last
  HttpClient http_;
};

}  // namespace understudy::transport::etcd
