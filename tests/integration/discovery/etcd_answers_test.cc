// The etcd backend against a server that answers what a test says: faults that a real one shows
// rarely.
#include "tests/integration/discovery/discovery_client.h"
#include "understudy/transport/http_server.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::DiscoveryClient;

constexpr char kGranted[] = R"({"header":{},"ID":"777","TTL":"3"})";
constexpr char kBeat[] = R"({"result":{"header":{},"ID":"777","TTL":"3"}})";

/// Answers by path; counts the calls.
class ScriptedEtcd {
 public:
  ScriptedEtcd() {
    Say("/v3/lease/grant", {200, kGranted});
    Say("/v3/lease/keepalive", {200, kBeat});
    Say("/v3/lease/revoke", {200, "{}"});
    Say("/v3/kv/txn", {200, R"({"succeeded":true})"});
    thread_.Do([this] {
      auto server = ServeHttp(thread_.loop(), "127.0.0.1", 0, [this](const HttpRequest& request) {
        return Answer(request);
      });
      ASSERT_TRUE(server) << server.error().message;
      server_ = std::move(*server);
    });
  }
  ~ScriptedEtcd() {
    thread_.Do([this] { server_.reset(); });
  }
  ScriptedEtcd(const ScriptedEtcd&) = delete;
  ScriptedEtcd& operator=(const ScriptedEtcd&) = delete;

  void Say(const std::string& path, HttpResponse response) {
    const std::lock_guard lock(mutex_);
    answers_[path] = std::move(response);
  }
  int Calls(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return calls_[path];
  }
  std::unique_ptr<DiscoveryClient> Client(Nanoseconds call_timeout = std::chrono::seconds(3)) {
    EtcdOptions options;
    options.call_timeout = call_timeout;
    options.endpoints = {"http://" + server_->address()};
    options.lease_ttl_s = 3;
    return DiscoveryClient::Etcd(options);
  }

 private:
  HttpResponse Answer(const HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    ++calls_[request.path];
    return answers_[request.path];
  }

  std::mutex mutex_;
  std::map<std::string, HttpResponse> answers_;
  std::map<std::string, int> calls_;
  fakes::LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
};

TEST(EtcdAnswers, StrangeAnswersToAGrantAreErrorsInWords) {
  ScriptedEtcd etcd;
  for (const char* body : {"",
                           "nonsense",
                           "[]",
                           "{}",
                           R"({"ID":7.5,"TTL":"3"})",
                           R"({"ID":"-1"})",
                           R"({"ID":"99999999999999999999","TTL":"3"})",
                           R"({"ID":"7","TTL":{}})"}) {
    etcd.Say("/v3/lease/grant", {200, body});
    auto client = etcd.Client();
    const auto id = client->Start();
    ASSERT_FALSE(id) << body;
    EXPECT_NE(id.error().message.find("unexpected answer"), std::string::npos)
        << id.error().message;
  }
}

TEST(EtcdAnswers, AnErrorPageOfSomethingElseIsQuoted) {
  ScriptedEtcd etcd;
  etcd.Say("/v3/lease/grant", {404, "404 page not found\n"});
  auto client = etcd.Client();
  const auto id = client->Start();
  ASSERT_FALSE(id);
  EXPECT_NE(id.error().message.find("404 page not found"), std::string::npos) << id.error().message;
}

TEST(EtcdAnswers, AServerWithoutALeaderCountsAsSilent) {
  ScriptedEtcd etcd;
  auto client = etcd.Client();
  ASSERT_TRUE(client->Start());
  etcd.Say("/v3/lease/keepalive", {503, R"({"error":"etcdserver: no leader","code":14})"});
  ASSERT_TRUE(client->WaitFor(LeaseState::kDegraded));
  etcd.Say("/v3/lease/keepalive", {200, kBeat});
  ASSERT_TRUE(client->WaitFor(LeaseState::kHeld));
}

TEST(EtcdAnswers, AnOldLeaseThatStillExistsIsUsedFurther) {
  ScriptedEtcd etcd;
  auto client = etcd.Client();
  ASSERT_TRUE(client->Start());
  etcd.Say("/v3/lease/grant", {412, R"({"error":"etcdserver: lease already exists","code":9})"});
  etcd.Say("/v3/lease/keepalive", {500, "{}"});
  ASSERT_TRUE(client->WaitFor(LeaseState::kLost));
  etcd.Say("/v3/lease/keepalive", {200, kBeat});
  ASSERT_TRUE(client->WaitFor(LeaseState::kRestored));
  ASSERT_TRUE(client->WaitFor(LeaseState::kHeld));
}

TEST(EtcdAnswers, RestoringGoesOnUntilTheRecordsAreAccepted) {
  ScriptedEtcd etcd;
  auto client = etcd.Client();
  ASSERT_TRUE(client->Start());
  ASSERT_TRUE(client->Put({{"v1/x/a", "1"}}));
  etcd.Say("/v3/kv/txn", {404, R"({"error":"etcdserver: requested lease not found","code":5})"});
  etcd.Say("/v3/lease/keepalive", {200, R"({"result":{"ID":"777"}})"});
  const int before = etcd.Calls("/v3/kv/txn");
  ASSERT_TRUE(client->WaitFor(LeaseState::kLost));
  ASSERT_TRUE(fakes::Eventually([&] { return etcd.Calls("/v3/kv/txn") >= before + 2; }));
  etcd.Say("/v3/kv/txn", {200, R"({"succeeded":true})"});
  ASSERT_TRUE(client->WaitFor(LeaseState::kRestored));
}

TEST(EtcdAnswers, ATransactionThatContradictsItselfEndsInAnError) {
  ScriptedEtcd etcd;
  auto client = etcd.Client();
  ASSERT_TRUE(client->Start());
  // Not done, although no key is said to exist: repeating would go on for ever.
  etcd.Say("/v3/kv/txn", {200, R"({"responses":[{"response_range":{"header":{}}}]})"});
  const auto status = client->Put({{"v1/x/a", "1"}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kMalformed);
  // Keys that we did not ask for: the batch never gets smaller.
  etcd.Say("/v3/kv/txn",
           {200, R"({"responses":[{"response_range":{"kvs":[{"key":"djEveA=="}]}}]})"});
  const auto again = client->Put({{"v1/x/a", "1"}});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kMalformed);
}

TEST(EtcdAnswers, AnAnswerBeyondTheLimitIsRefused) {
  ScriptedEtcd etcd;
  etcd.Say("/v3/kv/range", {200, std::string((64U << 20) + 1, 'x')});
  auto client = etcd.Client(std::chrono::minutes(1));  // so much takes long under a sanitizer
  const auto records = client->List("v1/");
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code, Errc::kMalformed);
  EXPECT_NE(records.error().message.find("longer than"), std::string::npos);
}

TEST(EtcdAnswers, AKeepAliveForAnotherLeaseIsNotBelieved) {
  ScriptedEtcd etcd;
  auto client = etcd.Client();
  ASSERT_TRUE(client->Start());
  etcd.Say("/v3/lease/keepalive", {200, R"({"result":{"ID":"778","TTL":"3"}})"});
  ASSERT_TRUE(client->WaitFor(LeaseState::kDegraded));
  ASSERT_TRUE(client->WaitFor(LeaseState::kLost));
}

}  // namespace
}  // namespace understudy::transport
