#include "worker/lifecycle/shutdown.h"

#include "tests/fakes/fake_event_plane.h"
#include "tests/fakes/fake_loop.h"
#include "tests/fakes/fake_nats.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

/// Answers when told to; says what was asked.
class FakeDiscovery final : public transport::Discovery {
 public:
  std::vector<std::string> calls;
  std::function<void(Status)> pending_delete;
  bool answer_delete = true;

  void Start(std::function<void(Result<std::uint64_t>)> done) override { done(std::uint64_t{1}); }
  void Put(std::vector<transport::Record>, std::function<void(Status)> done) override { done({}); }
  void Delete(std::vector<std::string> keys, std::function<void(Status)> done) override {
    calls.push_back("delete " + keys.front());
    if (answer_delete) {
      done({});
    } else {
      pending_delete = std::move(done);
    }
  }
  void List(std::string,
            std::function<void(Result<std::vector<transport::Record>>)> done) override {
    done(std::vector<transport::Record>{});
  }
  void OnLease(std::function<void(transport::LeaseState, const std::string&)>) override {}
  void Close(Nanoseconds, std::function<void(Status)> done) override {
    calls.push_back("close");
    done({});
  }
};

class IdleEngine final : public engine::Engine {
 public:
  [[nodiscard]] const engine::Traits& traits() const override { return traits_; }
  Status Start(engine::EngineSink&) override { return {}; }
  Status Submit(engine::Request) override { return {}; }
  void Cancel(RequestId, RankIndex) override {}
  std::string DumpState() override { return "{}"; }
  void Stop() override {}

 private:
  engine::Traits traits_;
};

class ShutdownTest : public ::testing::Test {
 protected:
  ShutdownTest() {
    EXPECT_TRUE(event_side_.Open());
    Shutdown::Parts parts;
    parts.discovery = &discovery_;
    parts.requests = &requests_;
    parts.events = &events_;
    parts.path = &path_;
    parts.event_side = &event_side_;
    parts.queries = &queries_;
    parts.instance_keys = {"v1/instances/a"};
    parts.subscriptions = {
        requests_.Subscribe("subject", "q", [](const transport::NatsMessage&) {})};
    parts.query_subscriptions = {
        requests_.Subscribe("queries", "q", [](const transport::NatsMessage&) {})};
    shutdown_ = std::make_unique<Shutdown>(loop_, parts, [this] { done_ = true; });
  }

  fakes::FakeLoop loop_;
  fakes::FakeNats requests_, events_;
  FakeDiscovery discovery_;
  IdleEngine engine_;
  std::unique_ptr<Metrics> metrics_ = Metrics::New();
  SteadyClock clock_;
  fakes::FakeEventPlane plane_;
  ReleaseProfile profile_;
  EventSide event_side_{loop_, plane_, clock_, *metrics_, profile_, {}, {}};
  Ingress ingress_{requests_, *metrics_, clock_};
  std::unique_ptr<NativeMetrics> native_ = NativeMetrics::New({});
  RequestPath path_{loop_, ingress_, engine_, event_side_, *metrics_, *native_, clock_, {}};
  QueryServer queries_{loop_, ingress_, event_side_.relay(), *metrics_};
  std::unique_ptr<Shutdown> shutdown_;
  bool done_ = false;
};

TEST_F(ShutdownTest, LeavesDiscoveryFirstAndKeepsServingForTheGracePeriod) {
  shutdown_->Begin();
  loop_.Advance(std::chrono::milliseconds(199));
  EXPECT_EQ(discovery_.calls, (std::vector<std::string>{"delete v1/instances/a"}));
  EXPECT_EQ(requests_.subjects().size(), 2U);
  EXPECT_FALSE(done_);
  loop_.Advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(requests_.subjects().empty());
  EXPECT_EQ(discovery_.calls, (std::vector<std::string>{"delete v1/instances/a", "close"}));
  EXPECT_TRUE(done_);
}

TEST_F(ShutdownTest, RequestsOnTheirWayAreTakenBeforeItEnds) {
  requests_.hold_retirements = true;
  shutdown_->Begin();
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(done_) << "more may come, though nothing runs";
  ASSERT_EQ(requests_.retirements.size(), 1U);
  requests_.retirements[0]();
  loop_.RunPosted();
  EXPECT_TRUE(done_);
}

TEST_F(ShutdownTest, AnUnreachableStoreDoesNotStopIt) {
  discovery_.answer_delete = false;
  shutdown_->Begin();
  loop_.Advance(Shutdown::kDeleteLimit + std::chrono::milliseconds(200));
  EXPECT_TRUE(done_);
  discovery_.pending_delete({});  // a late answer changes nothing
  loop_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(discovery_.calls.size(), 2U);
}

TEST_F(ShutdownTest, ASecondSignalGoesToTheEndAtOnce) {
  discovery_.answer_delete = false;
  shutdown_->Begin();
  shutdown_->Force();
  loop_.RunPosted();
  EXPECT_TRUE(done_);
  EXPECT_EQ(discovery_.calls.back(), "close");
}

TEST_F(ShutdownTest, AStartThatDidNotGetFarEndsAtOnce) {
  bool ended = false;
  Shutdown early(loop_, {}, [&] { ended = true; });
  early.Begin();
  loop_.RunPosted();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace understudy::worker
