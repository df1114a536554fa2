#include "worker/handoff/handoff_side.h"

#include "tests/fakes/fake_loop.h"
#include "tests/fakes/manual_clock.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;

/// An engine that refuses registrations with one error.
class RefusingEngine final : public engine::Handoffs {
 public:
  [[nodiscard]] Result<engine::HandoffRegistration> Register(engine::HandoffId,
                                                             RankIndex) override {
    return tl::make_unexpected(refusal);
  }
  [[nodiscard]] Result<engine::PreparedHandoff> Prepare(engine::Request, std::string) override {
    return Fail(Errc::kInternal, "not asked for");
  }
  void OnSignal(engine::HandoffSignal) override {}
  void Shutdown(std::function<void(Status)> done) override { done({}); }

  Error refusal{Errc::kOverloaded, "handoff HandoffId(x) already has a lifecycle route"};
};

class HandoffSideTest : public ::testing::Test {
 protected:
  static HandoffSide::Options Options(mocker::WorkerType role) {
    HandoffSide::Options options;
    options.role = role;
    options.dp_size = 2;
    options.sessions_max = 3;
    options.timing.mode = engine::TransferTiming::Mode::kDestinationMissing;
    options.timing.kv_bytes_per_token = 1'000'000;
    options.timing.bandwidth_gb_s = 1.0;
    return options;
  }
  std::unique_ptr<HandoffSide> Make(const HandoffSide::Options& options) {
    auto side = std::make_unique<HandoffSide>(loop_, clock_, engine_, options);
    side->OnEnded([this](RequestId id, const Status& status) {
      ended_.push_back(std::to_string(Value(id)) + (status ? "" : ": " + status.error().message));
    });
    return side;
  }
  static HandoffAsk Ask() {
    HandoffAsk ask;
    ask.dp_rank = 1;
    ask.context_id = "6f0c1d2e-0000-4000-8000-000000000000";
    ask.bootstrap = {"127.0.0.1", 1, 7, Uuid{1, 2}};
    return ask;
  }

  fakes::FakeLoop loop_;
  ManualClock clock_;
  RefusingEngine engine_;
  std::vector<std::string> ended_;
};

// Nobody says what the destination misses: the whole prompt is charged for, 60 ms here.
TEST_F(HandoffSideTest, WithoutARendezvousTheEndWaitsForTheWholePromptsTransfer) {
  const auto side = Make(Options(mocker::WorkerType::kPrefill));
  EXPECT_TRUE(side->LastToken(RequestId{5}, false, 60));
  loop_.Advance(milliseconds(59));
  EXPECT_TRUE(ended_.empty());
  loop_.Advance(milliseconds(1));
  EXPECT_EQ(ended_, (std::vector<std::string>{"5"}));
}

TEST_F(HandoffSideTest, AClientThatLeavesEndsTheWait) {
  const auto side = Make(Options(mocker::WorkerType::kPrefill));
  EXPECT_TRUE(side->LastToken(RequestId{5}, false, 60));
  EXPECT_TRUE(side->LastToken(RequestId{6}, false, 60));
  side->Cancel(RequestId{5});
  loop_.Advance(milliseconds(100));
  EXPECT_EQ(ended_, (std::vector<std::string>{"6"}));
}

TEST_F(HandoffSideTest, NothingToTransferIsNoWait) {
  auto options = Options(mocker::WorkerType::kPrefill);
  options.timing.bandwidth_gb_s.reset();
  EXPECT_FALSE(Make(options)->LastToken(RequestId{5}, false, 60));
  EXPECT_FALSE(Make(Options(mocker::WorkerType::kPrefill))->LastToken(RequestId{5}, false, 0));
  EXPECT_FALSE(Make(Options(mocker::WorkerType::kDecode))->LastToken(RequestId{5}, false, 60));
}

TEST_F(HandoffSideTest, APrefillWorkerThatDoesNotListenHandsNothingOver) {
  const auto side = Make(Options(mocker::WorkerType::kPrefill));
  const auto refused = side->Begin(Ask());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "source handoff manager is not initialized");
  EXPECT_EQ(refused.error().code, Errc::kMalformed) << "not a matter of load";
  EXPECT_NE(side->DumpState().find(R"("permits_taken":[0,0])"), std::string::npos);
}

TEST_F(HandoffSideTest, AnIdThatIsTakenIsTheRequestsFault) {
  const auto side = Make(Options(mocker::WorkerType::kDecode));
  const auto refused = side->Begin(Ask());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kMalformed) << "waiting would not help";
  EXPECT_EQ(refused.error().message, engine_.refusal.message);
}

TEST_F(HandoffSideTest, NothingBeginsAfterTheShutdown) {
  const auto side = Make(Options(mocker::WorkerType::kDecode));
  bool closed = false;
  side->Shutdown([&closed] { closed = true; });
  loop_.RunPosted();
  EXPECT_TRUE(closed);
  const auto refused = side->Begin(Ask());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "mocker is shutting down");
}

TEST_F(HandoffSideTest, MetricsAreTheKnownList) {
  const auto families = [](HandoffSide& side) {
    const std::string text = side.Scrape();
    std::vector<std::string> found;
    constexpr std::string_view kType = "# TYPE ";
    for (auto at = text.find(kType); at != std::string::npos; at = text.find(kType, at)) {
      at += kType.size();
      found.push_back(text.substr(at, text.find('\n', at) - at));
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const std::vector<std::string> of_decode = {"understudy_handoff_duration_seconds histogram",
                                              "understudy_handoffs_refused_total counter",
                                              "understudy_handoffs_running gauge",
                                              "understudy_handoffs_total counter"};
  EXPECT_EQ(families(*Make(Options(mocker::WorkerType::kDecode))), of_decode);
  const std::vector<std::string> of_prefill = {
      "understudy_bootstrap_connections_total counter",
      "understudy_handoff_duration_seconds histogram",
      "understudy_handoff_participants_rejected_total counter",
      "understudy_handoff_rendezvous_timeouts_total counter",
      "understudy_handoffs_pending gauge",
      "understudy_handoffs_refused_total counter",
      "understudy_handoffs_running gauge",
      "understudy_handoffs_total counter"};
  EXPECT_EQ(families(*Make(Options(mocker::WorkerType::kPrefill))), of_prefill);
}

}  // namespace
}  // namespace understudy::worker
