// The etcd backend against a real etcd.
#include "tests/fakes/server_process.h"
#include "tests/integration/discovery/discovery_client.h"
#include "tests/integration/discovery/etcdctl.h"

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using fakes::DiscoveryClient;
using fakes::LeaseOf;
using fakes::Revoke;
using fakes::ServerProcess;
using Keys = std::vector<std::string>;

EtcdOptions OptionsFor(const ServerProcess& server, std::int64_t ttl_s = 2) {
  EtcdOptions options;
  options.endpoints = {server.url()};
  options.lease_ttl_s = ttl_s;
  return options;
}

void ExpectNeverLost(DiscoveryClient& worker) {
  for (const auto& [state, text] : worker.states()) {
    EXPECT_TRUE(state != LeaseState::kLost) << text;
  }
}

class EtcdDiscoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = ServerProcess::Etcd();
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(EtcdDiscoveryTest, PublishedRecordsAreSeenByOthersUntilClose) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  auto reader = DiscoveryClient::Etcd(OptionsFor(*server_));
  const auto id = worker->Start();
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_NE(*id, 0U);
  ASSERT_TRUE(worker->Put({{"v1/instances/a", "{\"n\":1}"}, {"v1/mdc/a", "{\"n\":2}"}}));
  EXPECT_EQ(reader->Keys("v1/"), (Keys{"v1/instances/a", "v1/mdc/a"}));
  EXPECT_EQ(reader->ValueOf("v1/mdc/a"), "{\"n\":2}");
  EXPECT_EQ(reader->Keys("v1/instances/"), (Keys{"v1/instances/a"}));
  ASSERT_TRUE(worker->Close());
  EXPECT_EQ(reader->Keys("v1/"), Keys{});
}

TEST_F(EtcdDiscoveryTest, AnExistingKeyKeepsItsValueAndTheOthersOfTheBatchAreCreated) {
  auto first = DiscoveryClient::Etcd(OptionsFor(*server_));
  auto second = DiscoveryClient::Etcd(OptionsFor(*server_));
  ASSERT_TRUE(first->Start());
  ASSERT_TRUE(second->Start());
  ASSERT_TRUE(first->Put({{"v1/x/b", "first"}}));
  ASSERT_TRUE(second->Put({{"v1/x/a", "second"}, {"v1/x/b", "second"}, {"v1/x/c", "second"}}));
  EXPECT_EQ(second->Keys("v1/x/"), (Keys{"v1/x/a", "v1/x/b", "v1/x/c"}));
  EXPECT_EQ(second->ValueOf("v1/x/b"), "first");
  // Another owner's key is not ours to delete; forgotten it is all the same.
  ASSERT_TRUE(second->Delete({"v1/x/a", "v1/x/b"}));
  EXPECT_EQ(first->Keys("v1/x/"), (Keys{"v1/x/b", "v1/x/c"}));
}

TEST_F(EtcdDiscoveryTest, MoreRecordsThanATransactionHoldsAreAllCreatedAndDeleted) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  ASSERT_TRUE(worker->Start());
  std::vector<Record> records;
  Keys keys;
  for (int i = 0; i < 300; ++i) {
    keys.push_back("v1/many/" + std::to_string(1000 + i));
    records.push_back(
        {keys.back(), std::string(6000, 'x')});  // also more bytes than one request may have
  }
  const auto status = worker->Put(records);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(worker->Keys("v1/many/"), keys);
  ASSERT_TRUE(worker->Delete(keys));
  EXPECT_EQ(worker->Keys("v1/many/"), Keys{});
}

TEST_F(EtcdDiscoveryTest, ARecordNamedTwiceInOneCallKeepsTheFirstValue) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "first"}, {"v1/x/a", "second"}}));
  EXPECT_EQ(worker->ValueOf("v1/x/a"), "first");
}

TEST_F(EtcdDiscoveryTest, ListsWithoutALeaseOfItsOwn) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  auto reader = DiscoveryClient::Etcd(OptionsFor(*server_));
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  EXPECT_EQ(reader->Keys(""), (Keys{"v1/x/a"}));
  ASSERT_TRUE(reader->Close());
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/a"}));
}

TEST_F(EtcdDiscoveryTest, RecordsOutliveTheirTimeToLiveAndThoseOfTheDeadDoNot) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  auto dead = DiscoveryClient::Etcd(OptionsFor(*server_));
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  ASSERT_TRUE(dead->Start());
  ASSERT_TRUE(dead->Put({{"v1/x/b", "1"}}));
  dead->Destroy();  // without Close: as if killed
  ASSERT_TRUE(fakes::Eventually([&] { return worker->Keys("v1/x/") == Keys{"v1/x/a"}; }));
  ExpectNeverLost(*worker);
}

// reports.md U27: 0.8 of the time to live must be survived, 2 of them lead to a new registration.
TEST_F(EtcdDiscoveryTest, APauseOfFourFifthsOfTheTimeToLiveIsSurvived) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 8));
  ASSERT_TRUE(worker->Start());
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  server_->Pause();  // the lease is as young as can be
  worker->Advance(std::chrono::milliseconds(6400));
  server_->Resume();
  ASSERT_TRUE(worker->WaitFor(LeaseState::kDegraded));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kHeld));
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/a"}));
  ExpectNeverLost(*worker);
}

TEST_F(EtcdDiscoveryTest, AfterALongPauseTheSameIdServesAgain) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}, {"v1/x/b", "2"}}));
  server_->Pause();
  ASSERT_TRUE(worker->WaitFor(LeaseState::kDegraded));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  worker->Advance(std::chrono::seconds(2));  // so long that the server's own count runs out too
  server_->Resume();
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kHeld));
  auto reader = DiscoveryClient::Etcd(OptionsFor(*server_));
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/a", "v1/x/b"}));
  EXPECT_EQ(LeaseOf(*server_, "v1/x/a"), *id);
  // And it is alive: beyond its time to live it still stands.
  worker->Advance(std::chrono::seconds(3));
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/a", "v1/x/b"}));
}

TEST_F(EtcdDiscoveryTest, ALeaseRevokedFromOutsideIsGrantedAnewUnderItsId) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  Revoke(*server_, *id);
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  EXPECT_EQ(worker->ValueOf("v1/x/a"), "1");
  EXPECT_EQ(LeaseOf(*server_, "v1/x/a"), *id);
}

TEST_F(EtcdDiscoveryTest, APutThatFindsTheLeaseGoneIsDoneOnceItIsBack) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 60));  // no beat comes before the put
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  Revoke(*server_, *id);
  const auto status = worker->Put({{"v1/x/b", "2"}});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/a", "v1/x/b"}));
  EXPECT_EQ(LeaseOf(*server_, "v1/x/b"), *id);
  EXPECT_TRUE(worker->WaitFor(LeaseState::kLost));
  EXPECT_TRUE(worker->WaitFor(LeaseState::kRestored));
}

TEST_F(EtcdDiscoveryTest, DeletedRecordsAreNotPutBack) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_));
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}, {"v1/x/b", "2"}}));
  ASSERT_TRUE(worker->Delete({"v1/x/a"}));
  Revoke(*server_, *id);
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  EXPECT_EQ(worker->Keys("v1/x/"), (Keys{"v1/x/b"}));
}

TEST_F(EtcdDiscoveryTest, SurvivesAServerRestartOnTheSameData) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 10));
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  server_->Kill();
  ASSERT_TRUE(worker->WaitFor(LeaseState::kDegraded));
  ASSERT_TRUE(server_->Restart());
  ASSERT_TRUE(worker->WaitFor(LeaseState::kHeld));
  EXPECT_EQ(LeaseOf(*server_, "v1/x/a"), *id);
  ExpectNeverLost(*worker);
}

TEST_F(EtcdDiscoveryTest, AServerThatCameBackEmptyGetsTheRecordsAgain) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 10));
  const auto id = worker->Start();
  ASSERT_TRUE(id);
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  server_->Stop();
  server_->WipeData();
  ASSERT_TRUE(server_->Restart());
  ASSERT_TRUE(worker->WaitFor(LeaseState::kLost));
  ASSERT_TRUE(worker->WaitFor(LeaseState::kRestored));
  EXPECT_EQ(LeaseOf(*server_, "v1/x/a"), *id);
}

TEST_F(EtcdDiscoveryTest, CloseEndsWithinItsLimitWhenTheServerIsSilent) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 30));
  ASSERT_TRUE(worker->Start());
  server_->Pause();
  // The call's own limit is 3 s; a Close that did not count would wait for that, then for the
  // process's end.
  const auto status = worker->Close(std::chrono::milliseconds(200));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kTimeout);
  EXPECT_NE(status.error().message.find("ends by itself within 30 s"), std::string::npos);
  EXPECT_FALSE(worker->Close(std::chrono::seconds(5))) << "the second one gives the same answer";
}

TEST_F(EtcdDiscoveryTest, CloseAnswersWhateverWaits) {
  auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 30));
  ASSERT_TRUE(worker->Start());
  server_->Pause();
  auto put = worker->Begin([](Discovery& discovery, auto done) {
    discovery.Put({{"v1/x/a", "1"}}, std::move(done));
  });
  auto put_behind = worker->Begin(
      [](Discovery& discovery, auto done) { discovery.Delete({"v1/x/a"}, std::move(done)); });
  EXPECT_FALSE(worker->Close(std::chrono::milliseconds(100)));
  for (auto* each : {&put, &put_behind}) {
    const Status status = fakes::Await(std::move(*each));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kCancelled);
  }
  EXPECT_EQ(worker->Put({{"v1/x/b", "1"}}).error().code, Errc::kCancelled);
}

TEST_F(EtcdDiscoveryTest, MayBeDestroyedWithCallsUnderWay) {
  for (int i = 0; i < 20; ++i) {
    auto worker = DiscoveryClient::Etcd(OptionsFor(*server_, 30));
    ASSERT_TRUE(worker->Start());
    worker->thread().Do([&] {
      worker->discovery().Put({{"v1/x/a", "1"}}, [](Status) {});
      worker->discovery().List("v1/", [](Result<std::vector<Record>>) {});
    });
    worker->Destroy();
  }
}

TEST_F(EtcdDiscoveryTest, AnEndpointThatIsDeadOrSilentHandsOverToTheNext) {
  const auto dead = fakes::FreePort();
  auto silent = ServerProcess::Etcd();
  ASSERT_TRUE(dead && silent);
  (*silent)->Pause();
  EtcdOptions options = OptionsFor(*server_);
  options.endpoints = {
      "http://127.0.0.1:" + std::to_string(*dead), (*silent)->url(), server_->url()};
  options.call_timeout = std::chrono::milliseconds(300);
  auto worker = DiscoveryClient::Etcd(options);
  const auto id = worker->Start();
  ASSERT_TRUE(id) << id.error().message;
  ASSERT_TRUE(worker->Put({{"v1/x/a", "1"}}));
  auto reader = DiscoveryClient::Etcd(OptionsFor(*server_));
  EXPECT_EQ(reader->Keys("v1/x/"), (Keys{"v1/x/a"}));
  EXPECT_TRUE(worker->Close());
  EXPECT_EQ(reader->Keys("v1/x/"), Keys{});
}

TEST(EtcdDiscoveryStart, ErrorsNameTheAddress) {
  const auto dead = fakes::FreePort();
  ASSERT_TRUE(dead);
  const std::string address = "http://127.0.0.1:" + std::to_string(*dead);
  EtcdOptions options;
  options.endpoints = {address};
  auto worker = DiscoveryClient::Etcd(options);
  const auto id = worker->Start();
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, Errc::kUnavailable);
  EXPECT_EQ(
      id.error().message.rfind("Unable to create lease. Check etcd server status at " + address, 0),
      0U)
      << id.error().message;
  const auto records = worker->List("v1/");
  ASSERT_FALSE(records);
  EXPECT_NE(records.error().message.find(address), std::string::npos);
  EXPECT_TRUE(worker->Close()) << "nothing to revoke";
}

TEST(EtcdDiscoveryStart, MayBeTriedAgainUntilTheServerIsThere) {
  auto server = ServerProcess::Etcd();
  ASSERT_TRUE(server);
  (*server)->Stop();
  auto worker = DiscoveryClient::Etcd(OptionsFor(**server));
  EXPECT_FALSE(worker->Start());
  ASSERT_TRUE((*server)->Restart());
  EXPECT_TRUE(worker->Start());
  EXPECT_FALSE(worker->Start()) << "one lease an object";
}

TEST(EtcdDiscoveryStart, RefusesWhatItCannotServe) {
  const auto error_of = [](EtcdOptions options) {
    auto worker = DiscoveryClient::Etcd(std::move(options));
    const auto id = worker->Start();
    EXPECT_EQ(id.error().code, Errc::kInvalidConfig);
    return id.error().message;
  };
  EtcdOptions tls;
  tls.endpoints = {"http://127.0.0.1:1", "https://etcd:2379"};
  EXPECT_EQ(error_of(tls),
            "etcd endpoint https://etcd:2379: TLS to etcd is not built yet, use http://");
  EtcdOptions none;
  none.endpoints = {};
  EXPECT_NE(error_of(none).find("no endpoint"), std::string::npos);
  EtcdOptions half;
  half.user = "dyn";
  EXPECT_NE(error_of(half).find("password"), std::string::npos);
  EtcdOptions no_time;
  no_time.lease_ttl_s = 0;
  EXPECT_NE(error_of(no_time).find("time to live"), std::string::npos);
}

}  // namespace
}  // namespace understudy::transport
