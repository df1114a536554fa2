#include "transport/etcd/gateway.h"

#include <algorithm>
#include <utility>

namespace understudy::transport::etcd {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr Nanoseconds kAttemptMin = std::chrono::milliseconds(1);

std::string Normal(std::string endpoint) {
  if (endpoint.find("://") == std::string::npos) {
    endpoint.insert(0, kScheme);
  }
  while (!endpoint.empty() && endpoint.back() == '/') {
    endpoint.pop_back();
  }
  return endpoint;
}

Answer MakeAnswer(HttpReply reply) {
  Answer answer;
  answer.status = reply.status;
  if (!answer.ok()) {
    answer.refusal = ParseRefusal(reply.body);
  }
  answer.body = std::move(reply.body);
  return answer;
}

}  // namespace

struct Gateway::Pending {
  std::string path;
  std::string body;
  Auth auth = Auth::kToken;
  TimePoint deadline;
  Done done;
  std::size_t endpoint = 0;
  std::size_t endpoints_left = 0;
  bool renewed = false;    ///< the token was fetched anew for this call
  std::string token_used;  ///< to tell whether another call renewed it meanwhile
};

Gateway::Gateway(Loop& loop, EtcdOptions options) : options_(std::move(options)), http_(loop) {
  std::transform(
      options_.endpoints.begin(), options_.endpoints.end(), options_.endpoints.begin(), Normal);
}

Gateway::~Gateway() = default;

Status Gateway::Check() const {
  if (options_.endpoints.empty()) {
    return Fail(Errc::kInvalidConfig, "etcd: no endpoint is set");
  }
  for (const std::string& endpoint : options_.endpoints) {
    if (endpoint.rfind("https://", 0) == 0) {
      return Fail(Errc::kInvalidConfig,
                  "etcd endpoint " + endpoint + ": TLS to etcd is not built yet, use http://");
    }
    if (endpoint.rfind(kScheme, 0) != 0 || endpoint.size() == kScheme.size()) {
      return Fail(Errc::kInvalidConfig, "etcd endpoint '" + endpoint + "': want http://host:port");
    }
  }
  if (options_.user.empty() != options_.password.empty()) {
    return Fail(Errc::kInvalidConfig, "etcd: user and password must be set together");
  }
  return {};
}

std::string Gateway::addresses() const {
  std::string text;
  for (const std::string& endpoint : options_.endpoints) {
    text += (text.empty() ? "" : ",") + endpoint;
  }
  return text;
}

void Gateway::Call(
    std::string_view path, std::string body, Auth auth, Nanoseconds limit, Done done) {
  auto call = std::make_shared<Pending>();
  call->path = path;
  call->body = std::move(body);
  call->auth = options_.user.empty() ? Auth::kNone : auth;
  call->deadline = std::chrono::steady_clock::now() + limit;
  call->done = std::move(done);
  call->endpoint = preferred_;
  call->endpoints_left = options_.endpoints.size();
  Step(call);
}

void Gateway::Step(const PendingPtr& call) {
  if (call->auth == Auth::kToken && token_.empty()) {
    Authenticate(call);
  } else {
    Send(call);
  }
}

std::string Gateway::Url(const PendingPtr& call, std::string_view path) {
  return options_.endpoints[call->endpoint] + std::string(path);
}

/// What one attempt may take, so that every endpoint gets its share of the time left.
static Nanoseconds Share(TimePoint deadline, std::size_t endpoints_left) {
  const Nanoseconds left = deadline - std::chrono::steady_clock::now();
  return std::max(kAttemptMin, left / static_cast<Nanoseconds::rep>(endpoints_left));
}

void Gateway::Authenticate(const PendingPtr& call) {
  http_.Post({.url = Url(call, kAuthenticatePath),
              .body = AuthenticateBody(options_.user, options_.password),
              .authorization = {},
              .timeout = Share(call->deadline, call->endpoints_left)},
             [this, call](Result<HttpReply> reply) { OnToken(call, std::move(reply)); });
}

void Gateway::OnToken(const PendingPtr& call, Result<HttpReply> reply) {
  if (!reply) {
    NextEndpoint(call, std::move(reply).error());
    return;
  }
  const std::string& address = options_.endpoints[call->endpoint];
  if (reply->status >= 500) {
    NextEndpoint(call, {Errc::kUnavailable, ParseRefusal(reply->body).message});
    return;
  }
  if (reply->status != 200) {
    call->done(Fail(Errc::kInvalidConfig,
                    "authentication as '" + options_.user + "' at " + address + ": " +
                        ParseRefusal(reply->body).message));
    return;
  }
  auto token = ParseToken(reply->body);
  if (!token) {
    call->done(FailWith(address, std::move(token).error()));
    return;
  }
  token_ = std::move(*token);
  Send(call);
}

void Gateway::Send(const PendingPtr& call) {
  call->token_used = call->auth == Auth::kToken ? token_ : std::string();
  http_.Post({.url = Url(call, call->path),
              .body = call->body,
              .authorization = call->token_used,
              .timeout = Share(call->deadline, call->endpoints_left)},
             [this, call](Result<HttpReply> reply) { OnReply(call, std::move(reply)); });
}

void Gateway::OnReply(const PendingPtr& call, Result<HttpReply> reply) {
  if (!reply) {
    if (reply.error().code == Errc::kTimeout && !call->token_used.empty() &&
        token_ == call->token_used) {
      // A server that doesn't know a token's log index yet says nothing at all: get a new one next
      // time.
      token_.clear();
    }
    if (reply.error().code == Errc::kMalformed || reply.error().code == Errc::kOverloaded) {
      call->done(FailWith(options_.endpoints[call->endpoint], std::move(reply).error()));
      return;
    }
    NextEndpoint(call, std::move(reply).error());
    return;
  }
  Answer answer = MakeAnswer(std::move(*reply));
  if (answer.status >= 500) {
    NextEndpoint(call, {Errc::kUnavailable, answer.refusal.message});
    return;
  }
  if (!answer.ok() && call->auth == Auth::kToken && !call->renewed &&
      WantsToken(answer.status, answer.refusal)) {
    call->renewed = true;
    if (token_ == call->token_used) {
      token_.clear();
    }
    Step(call);
    return;
  }
  preferred_ = call->endpoint;
  call->done(std::move(answer));
}

void Gateway::NextEndpoint(const PendingPtr& call, Error error) {
  const std::string& address = options_.endpoints[call->endpoint];
  call->endpoint = (call->endpoint + 1) % options_.endpoints.size();
  --call->endpoints_left;
  if (call->endpoints_left == 0) {
    call->done(FailWith(address, std::move(error)));
    return;
  }
  Step(call);
}

}  // namespace understudy::transport::etcd
