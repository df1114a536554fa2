// The etcd backend against a real etcd with users. Rules: wire.md 1.2.
#include "tests/fakes/server_process.h"
#include "tests/integration/discovery/discovery_client.h"
#include "tests/integration/discovery/etcdctl.h"

#include <memory>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::DiscoveryClient;
using fakes::Etcdctl;
using fakes::ServerProcess;
using Keys = std::vector<std::string>;

/// Users: root; dyn, who may use keys below v1/; poor, who may nothing. Tokens live 2 s since their
/// last use.
class EtcdAuth : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = ServerProcess::Etcd({"--auth-token-ttl=2"});
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    Etcdctl(*server_, "user add root:root");
    Etcdctl(*server_, "role add worker");
    Etcdctl(*server_, "role grant-permission worker readwrite v1/ --prefix=true");
    Etcdctl(*server_, "user add dyn:s3cret");
    Etcdctl(*server_, "user grant-role dyn worker");
    Etcdctl(*server_, "user add poor:poor");
    Etcdctl(*server_, "user grant-role root root");
    const std::string output = Etcdctl(*server_, "auth enable");
    ASSERT_NE(output.find("Authentication Enabled"), std::string::npos) << output;
  }

  std::unique_ptr<DiscoveryClient> As(const std::string& user, const std::string& password) {
    EtcdOptions options;
    options.endpoints = {server_->url()};
    options.user = user;
    options.password = password;
    options.lease_ttl_s = 20;
    return DiscoveryClient::Etcd(options);
  }

  /// How many keys lie below v1/, asked as root.
  std::string Listed() {
    return Etcdctl(*server_, "--user root:root get --prefix --keys-only v1/");
  }

  std::unique_ptr<ServerProcess> server_;
};

TEST_F(EtcdAuth, PublishesWithUserAndPassword) {
  auto worker = As("dyn", "s3cret");
  ASSERT_TRUE(worker->Start());
  const auto status = worker->Put({{"v1/x/a", "1"}});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/a"}));
  ASSERT_TRUE(worker->Close());
  EXPECT_EQ(Listed().find("v1/x/a"), std::string::npos);
}

TEST_F(EtcdAuth, AWrongPasswordIsRefusedWithUserAndAddress) {
  auto worker = As("dyn", "nope");
  const auto id = worker->Start();
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Errc::kInvalidConfig);
  for (const char* part : {"'dyn'", "authentication failed, invalid user ID or password"}) {
    EXPECT_NE(id.error().message.find(part), std::string::npos) << id.error().message;
  }
  EXPECT_NE(id.error().message.find(server_->url()), std::string::npos);
  EXPECT_EQ(id.error().message.find("nope"), std::string::npos) << "no password in a log";
}

TEST_F(EtcdAuth, WithoutAUserThePutIsRefusedInWords) {
  auto worker = As("", "");
  ASSERT_TRUE(worker->Start()) << "a grant needs no user";
  const auto status = worker->Put({{"v1/x/a", "1"}});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("user name is empty"), std::string::npos);
}

TEST_F(EtcdAuth, AUserWithoutTheRightIsRefusedInWords) {
  auto worker = As("poor", "poor");
  ASSERT_TRUE(worker->Start());
  const auto status = worker->Put({{"v1/x/a", "1"}});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("permission denied"), std::string::npos);
}

// The reference keeps its first token: after an idle time its records stay behind at the end
// (wire.md 1.2).
TEST_F(EtcdAuth, AnExpiredTokenIsRenewedForAPutAndForTheRevoke) {
  auto worker = As("dyn", "s3cret");
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  worker->Advance(std::chrono::seconds(5));
  const auto status = worker->Put({{"v1/x/b", "1"}});
  ASSERT_TRUE(status) << status.error().message;
  worker->Advance(std::chrono::seconds(5));
  const auto closed = worker->Close();
  ASSERT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(Listed().find("v1/x/"), std::string::npos);
}

TEST_F(EtcdAuth, ALostLeaseIsGrantedAnewWithAnExpiredToken) {
  auto worker = As("dyn", "s3cret");
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  worker->Advance(std::chrono::seconds(4));
  char lease[32];
  std::snprintf(lease, sizeof(lease), "%llx", static_cast<unsigned long long>(*id));
  Etcdctl(*server_, std::string("--user root:root lease revoke ") + lease);
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/a"}));
}

}  // namespace
}  // namespace understudy::transport
