// The worker on a real etcd: its lease, and many workers in a process. Source: wire.md 2.
#include "tests/integration/discovery/etcdctl.h"
#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/records.h"

#include <csignal>
#include <set>
#include <sstream>

namespace understudy::worker {
namespace {

class Etcd : public WorkerTest {
 protected:
  void SetUp() override { etcd_ = &UseEtcd("5"); }
  std::vector<std::string> Keys(const std::string& prefix) const {
    std::istringstream lines(fakes::Etcdctl(*etcd_, "get --prefix --keys-only " + prefix));
    std::vector<std::string> keys;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) {
        keys.push_back(line);
      }
    }
    return keys;
  }
  std::string ServingPrefix() const { return "v1/instances/" + ns() + "/backend/generate/"; }
  std::string InstanceKey(const std::string& id) const { return ServingPrefix() + id; }
  void RevokeLeaseOf(const WorkerProcess& worker) const {
    const auto lease = fakes::LeaseOf(*etcd_, InstanceKey(worker.Instances().at(0)));
    ASSERT_NE(lease, 0U);
    fakes::Revoke(*etcd_, lease);
  }
  ServerProcess* etcd_ = nullptr;
};

TEST_F(Etcd, TheInstanceIsTheLeaseAndLeavesAtShutdown) {
  const auto worker = Start(kFree);
  EXPECT_EQ(Keys(ServingPrefix()),
            (std::vector<std::string>{InstanceKey(worker->Instances().at(0))}));
  EXPECT_EQ(Keys("v1/mdc/").size(), 1U);
  EXPECT_EQ(WhyNotServing(*worker), "");
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Keys("v1/").empty());
  EXPECT_NE(fakes::Etcdctl(*etcd_, "lease list").find("found 0 leases"), std::string::npos);
}

TEST_F(Etcd, ShutdownDeletesTheInstanceWhileStreamsFinishAndTheCardLast) {
  const auto worker = Start();
  const auto call = Send(*worker, 5, 300);
  ASSERT_TRUE(call->WaitTokens(1));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return Keys(ServingPrefix()).empty(); }));
  EXPECT_EQ(Keys("v1/mdc/").size(), 1U);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(300), "");
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Keys("v1/").empty());
}

TEST_F(Etcd, ALeaseRevokedFromOutsideComesBackUnderTheSameIdsAndStreamsGoOn) {
  const auto worker = Start();
  const auto before = Keys("v1/");
  const auto call = Send(*worker, 5, 900);
  ASSERT_TRUE(call->WaitTokens(1));
  RevokeLeaseOf(*worker);
  ASSERT_TRUE(worker->WaitErr("lease restored"));
  EXPECT_EQ(worker->CountErr("lease lost, unregistered"), 1U) << worker->err();
  EXPECT_EQ(Keys("v1/"), before);
  EXPECT_TRUE(Eventually([&] { return worker->Get("/health").status == 200; }));
  EXPECT_EQ(worker->Metric("understudy_lease_losses_total"), 1);
  EXPECT_EQ(WhyNotServing(*worker), "");
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(900), "");
}

TEST_F(Etcd, WhileItIsDownHealthFallsAndRisesAndRequestsAreServed) {
  environment["ETCD_LEASE_TTL"] = "2";
  const auto worker = Start(kFree);
  const auto before = Keys("v1/");
  etcd_->Kill();
  ASSERT_TRUE(Eventually([&] { return worker->Get("/health").status == 503; }));
  EXPECT_EQ(worker->Get("/live").status, 200);
  EXPECT_EQ(worker->Metric("understudy_registered"), 0);
  EXPECT_EQ(WhyNotServing(*worker), "");
  ASSERT_TRUE(etcd_->Restart());
  ASSERT_TRUE(Eventually([&] { return worker->Get("/health").status == 200; }));
  EXPECT_EQ(Keys("v1/"), before);
  EXPECT_EQ(worker->CountErr("lease lost, unregistered"), 1U);
}

TEST_F(Etcd, OnLeaseLossExitDrainsAndExitsWithThree) {
  const auto worker = Start(Arguments{"--on-lease-loss", "exit"});
  const auto call = Send(*worker, 5, 100);
  ASSERT_TRUE(call->WaitTokens(1));
  RevokeLeaseOf(*worker);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(100), "") << "streams are drained first";
  EXPECT_EQ(worker->WaitExit(), 3);
}

TEST_F(Etcd, ALeaseLostDuringADrainDoesNotCutStreams) {
  const auto worker = Start(Arguments{"--on-lease-loss", "exit"});
  const auto call = Send(*worker, 5, 900);
  ASSERT_TRUE(call->WaitTokens(1));
  const auto lease = fakes::LeaseOf(*etcd_, InstanceKey(worker->Instances().at(0)));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(worker->WaitErr("Phase 2"));
  fakes::Revoke(*etcd_, lease);
  ASSERT_TRUE(worker->WaitErr("lease lost"));
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(900), "");
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Keys("v1/").empty());
}

TEST_F(Etcd, FiftyWorkersShareThreadsConnectionsAndOneLease) {
  const Arguments plain = kFree + Arguments{"--engine-threads", "1"};
  std::size_t threads = 0;
  std::size_t sockets = 0;
  {
    const auto one = Start(plain);
    ASSERT_EQ(WhyNotServing(*one), "");
    ASSERT_TRUE(one->WaitIdle());
    threads = one->threads();
    sockets = one->sockets();
    one->Signal(SIGTERM);
    ASSERT_EQ(one->WaitExit(), 0);
  }
  const auto worker = Start(plain + Arguments{"--num-workers", "50"});
  const auto ids = worker->Instances();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 50U);
  EXPECT_EQ(Keys(ServingPrefix()).size(), 50U);
  EXPECT_EQ(Keys("v1/mdc/").size(), 50U);
  EXPECT_NE(fakes::Etcdctl(*etcd_, "lease list").find("found 1 leases"), std::string::npos);
  std::vector<CallPtr> calls;
  std::istringstream records(
      fakes::Etcdctl(*etcd_, "get --prefix --print-value-only " + ServingPrefix()));
  for (std::string record; std::getline(records, record);) {
    const auto instance = transport::DecodeInstance(record);
    ASSERT_TRUE(instance) << record;
    auto spec = Spec(*worker, 10, 20);
    spec.subject = instance->transport_value;
    calls.push_back(frontend().Send(spec));
  }
  EXPECT_EQ(calls.size(), 50U);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitClosed());
    EXPECT_EQ(call->WhyNotWhole(20), "");
  }
  for (const auto& id : {ids.front(), ids.at(25), ids.back()}) {
    EXPECT_EQ(worker->Metric("dynamo_component_requests_total", "worker_id=\"" + id + "\""), 1);
  }
  ASSERT_TRUE(worker->WaitIdle());
  EXPECT_TRUE(Eventually([&] { return worker->threads() <= threads; }))
      << worker->threads() << " threads, one worker has " << threads;
  // The etcd client keeps up to four connections for reuse, whatever the number of workers.
  EXPECT_TRUE(Eventually([&] { return worker->sockets() <= sockets + 3; }))
      << worker->sockets() << " sockets, one worker has " << sockets;
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->WaitExit(), 0);
  EXPECT_TRUE(Keys("v1/").empty());
}

}  // namespace
}  // namespace understudy::worker
