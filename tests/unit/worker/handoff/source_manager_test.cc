// Who may take part in a hand-off: rows M-166 to M-174, M-123 to M-125.
#include "worker/handoff/source_manager.h"

#include "tests/unit/worker/handoff/handoff_fakes.h"

#include <map>

namespace understudy::worker {
namespace {

using mocker::EngineType;
using mocker::handoff::Order;
using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::BootstrapIdentity;
using transport::BootstrapProtocolError;

class SourceManagerTest : public SessionTest {
 protected:
  void SetUp() override { Make(8); }
  void Make(std::size_t sessions_max) {
    manager_ = std::make_unique<SourceManager>(place_, sessions_max);
  }
  static BootstrapIdentity Identity(std::uint64_t id) { return {{0, id}, id, {1, id}}; }

  struct Source {
    std::shared_ptr<Script> script = std::make_shared<Script>();
    std::string told;
    SourceManager::Ticket ticket{};
  };
  SourceParticipant Participant(Source& source, std::uint64_t id) {
    SourceParticipant participant;
    participant.identity = Identity(id);
    participant.handoff = MakeHandoff(source.script);
    participant.completion = [&source](const Status& status) {
      EXPECT_EQ(source.told, "");
      source.told = status ? "ok" : status.error().message;
    };
    return participant;
  }
  Source& Offer(std::uint64_t id, std::function<void(SourceParticipant&)> change = nullptr) {
    Source& source = sources_.emplace_back();
    SourceParticipant participant = Participant(source, id);
    if (change) {
      change(participant);
    }
    source.ticket = *manager_->Offer(std::move(participant));
    loop_.RunPosted();
    return source;
  }
  std::shared_ptr<Wire> Arrive(std::uint64_t id,
                               Order order = Order::kSourceFirst,
                               bool stuck = false) {
    auto wire = std::make_shared<Wire>();
    wire->stuck = stuck;
    manager_->OnDestination(
        {Identity(id),
         {0,
          order == Order::kSourceFirst ? transport::BootstrapOrder::kSourceFirst
                                       : transport::BootstrapOrder::kDestinationFirst,
          transport::BootstrapEngine::kVllm},
         std::make_unique<FakeConnection>(loop_, wire, Identity(id))});
    loop_.RunPosted();
    return wire;
  }
  static std::string ErrorText(const char* text) {
    return DebugText(transport::BootstrapMessage(BootstrapProtocolError{text}));
  }
  /// Lets a session end.
  void Finish(Source& source) {
    manager_->Cancel(source.ticket);
    source.script->Answer(source.script->asked.size() - 1, HandoffOutcome::kNoop);
    loop_.RunPosted();
    EXPECT_EQ(source.told, "source request was canceled");
  }

  std::unique_ptr<SourceManager> manager_;
  std::deque<Source> sources_;
};

TEST_F(SourceManagerTest, M166_EitherSideMayComeFirst) {
  Source& first = Offer(1);
  EXPECT_EQ(manager_->pending(), 1U);
  const auto wire = Arrive(1);
  EXPECT_EQ(wire->Texts(), Names{"Registered"});
  const auto early = Arrive(2);
  EXPECT_TRUE(early->sent.empty());
  Source& late = Offer(2);
  EXPECT_EQ(early->Texts(), Names{"Registered"});
  EXPECT_EQ(manager_->pending(), 0U);
  EXPECT_EQ(manager_->active(), 2U);
  EXPECT_EQ(first.script->Names(), Names{"submit"});
  EXPECT_EQ(late.script->Names(), Names{"submit"});
}

TEST_F(SourceManagerTest, M167_M214_ParticipantsThatDoNotMatchAreBothRefused) {
  const char* kText = "handoff participant identity or backend mismatch";
  const std::function<void(SourceParticipant&)> kChanges[] = {
      [](SourceParticipant& p) { p.identity.room = 99; },
      [](SourceParticipant& p) {
        p.identity.request_id = {9, 9};
      },
      [](SourceParticipant& p) { p.order = Order::kDestinationFirst; },
      [](SourceParticipant& p) { p.engine_type = EngineType::kSglang; },
  };
  std::uint64_t id = 1;
  for (const auto& change : kChanges) {
    const auto wire = Arrive(id);
    Source& source = Offer(id, change);
    EXPECT_EQ(source.told, kText);
    EXPECT_EQ(wire->Texts(), Names{ErrorText(kText)});
    EXPECT_TRUE(wire->closed);
    EXPECT_TRUE(source.script->asked.empty()) << "the engine never heard of it";
    EXPECT_FALSE(source.script->registered);
    ++id;
  }
  EXPECT_EQ(manager_->retired(), 4U);
}

TEST_F(SourceManagerTest, M168_DuplicatesAreRefusedAndTheFirstOnesWait) {
  Source& first = Offer(1);
  Source& second = Offer(1);
  EXPECT_EQ(second.told, "duplicate source participant");
  EXPECT_EQ(first.told, "");
  const auto waiting = Arrive(2);
  const auto duplicate = Arrive(2);
  EXPECT_EQ(duplicate->Texts(), Names{ErrorText("duplicate destination participant")});
  EXPECT_TRUE(duplicate->closed);
  EXPECT_FALSE(waiting->closed);
  manager_->Cancel(second.ticket);  // of the refused one: nothing happens to the first
  EXPECT_EQ(manager_->pending(), 2U);
}

TEST_F(SourceManagerTest, M169_ActiveAndRetiredIdsAreRefused) {
  const char* kText = "handoff session is already active or retired";
  Source& source = Offer(1);
  const auto wire = Arrive(1);
  EXPECT_EQ(Offer(1).told, kText);
  EXPECT_EQ(Arrive(1)->Texts(), Names{ErrorText(kText)});
  Finish(source);
  EXPECT_EQ(manager_->active(), 0U);
  EXPECT_EQ(manager_->retired(), 1U);
  EXPECT_EQ(Offer(1).told, kText);
  EXPECT_EQ(Arrive(1)->Texts(), Names{ErrorText(kText)});
}

TEST_F(SourceManagerTest, M170_TheLimitCountsPendingAndActive) {
  Make(2);
  Offer(1);
  Arrive(1);
  const auto second = Arrive(2);
  const auto third = Arrive(3);
  EXPECT_EQ(third->Texts(), Names{"Overloaded"});
  EXPECT_TRUE(third->closed);
  EXPECT_EQ(Offer(4).told, "handoff session limit reached");
  Source& partner = Offer(2);
  EXPECT_EQ(partner.told, "") << "it joins one that counts already";
  EXPECT_EQ(manager_->retired(), 0U) << "an id that met the limit may try again";
  EXPECT_EQ(manager_->counts().limit_reached_total, 2U);
}

TEST_F(SourceManagerTest, M171_WithoutAPartnerThirtySecondsIsAll) {
  const char* kText = "handoff participant rendezvous timed out";
  Source& source = Offer(1);
  const auto wire = Arrive(2);
  Pass(seconds(30) - milliseconds(200));
  EXPECT_EQ(source.told, "");
  Pass(milliseconds(400));
  EXPECT_EQ(source.told, kText);
  EXPECT_EQ(wire->Texts(), Names{ErrorText(kText)});
  EXPECT_TRUE(wire->closed);
  EXPECT_EQ(manager_->pending(), 0U);
  EXPECT_EQ(Offer(1).told, "handoff session is already active or retired");
  EXPECT_EQ(manager_->counts().rendezvous_timeouts_total, 2U);
  EXPECT_EQ(loop_.timers_armed(), 0U);
}

TEST_F(SourceManagerTest, M172_ACancelledSourceFreesItsPlace) {
  Make(1);
  Source& source = Offer(1);
  manager_->Cancel(source.ticket);
  Pass(milliseconds(100));
  EXPECT_EQ(source.told, "source request was canceled before rendezvous");
  EXPECT_EQ(manager_->pending(), 0U);
  EXPECT_EQ(Arrive(1)->Texts(), Names{ErrorText("handoff session is already active or retired")});
  EXPECT_EQ(Offer(2).told, "");
}

TEST_F(SourceManagerTest, M173_ADestinationThatLeavesIsRetired) {
  Make(1);
  const auto wire = Arrive(1);
  wire->peer_closed = true;
  Pass(milliseconds(100));
  EXPECT_EQ(manager_->pending(), 0U);
  EXPECT_TRUE(wire->closed);
  EXPECT_TRUE(wire->sent.empty());
  EXPECT_EQ(Offer(1).told, "handoff session is already active or retired");
}

TEST_F(SourceManagerTest, M174_RetiredIdsAreForgottenByNumberAndByTime) {
  Make(2);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    manager_->Cancel(Offer(id).ticket);
  }
  EXPECT_EQ(manager_->retired(), 2U);
  EXPECT_EQ(Offer(1).told, "") << "the oldest is forgotten";
  EXPECT_EQ(Offer(3).told, "handoff session is already active or retired");
  Pass(milliseconds(1500));
  EXPECT_EQ(Offer(3).told, "") << "the session timeout has passed";
}

TEST_F(SourceManagerTest, RejectionsBeyondTheBoundAreDropped) {
  Make(2);
  Offer(1);
  Arrive(1);
  std::vector<std::shared_ptr<Wire>> stuck;
  for (int i = 0; i < 3; ++i) {
    stuck.push_back(Arrive(1, Order::kSourceFirst, /*stuck=*/true));
  }
  EXPECT_EQ(stuck[1]->sent.size(), 1U);
  EXPECT_FALSE(stuck[1]->closed);
  EXPECT_TRUE(stuck[2]->sent.empty());
  EXPECT_TRUE(stuck[2]->closed);
  EXPECT_EQ(manager_->counts().rejections_dropped_total, 1U);
  stuck[0]->End(Status());
  EXPECT_TRUE(stuck[0]->closed);
  EXPECT_EQ(Arrive(1)->sent.size(), 1U) << "there is room again";
}

TEST_F(SourceManagerTest, ASessionThatEndsTellsItsRequestAndFreesItsPlace) {
  Make(1);
  Source& source = Offer(1);
  const auto wire = Arrive(1);
  wire->Receive(transport::BootstrapAbort{"dest says no"});
  source.script->Answer(1, HandoffOutcome::kApplied);
  loop_.RunPosted();
  EXPECT_EQ(source.told, "dest says no");
  EXPECT_EQ(manager_->active(), 0U);
  EXPECT_EQ(Offer(2).told, "");
  manager_->Cancel(source.ticket);  // over: nothing
}

TEST_F(SourceManagerTest, M124_ShutdownRejectsThoseThatWait) {
  const char* kText = "handoff manager is shutting down";
  Source& source = Offer(1);
  const auto wire = Arrive(2);
  bool closed = false;
  manager_->Shutdown([&closed] { closed = true; });
  EXPECT_FALSE(closed);
  loop_.RunPosted();
  EXPECT_TRUE(closed);
  EXPECT_EQ(source.told, kText);
  EXPECT_EQ(wire->Texts(), Names{ErrorText(kText)});
  Source& late = sources_.emplace_back();
  const auto refused = manager_->Offer(Participant(late, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "mocker handoff source admission failed: channel closed");
  EXPECT_TRUE(Arrive(4)->closed);
}

TEST_F(SourceManagerTest, M123_ShutdownWaitsForTheCleanupOfThoseAtWork) {
  Source& source = Offer(1);
  const auto wire = Arrive(1);
  bool closed = false;
  manager_->Shutdown([&closed] { closed = true; });
  loop_.RunPosted();
  EXPECT_FALSE(closed);
  EXPECT_EQ(wire->Last(), "Abort { message: \"mocker is shutting down\" }");
  source.script->Answer(1, HandoffOutcome::kApplied);
  loop_.RunPosted();
  EXPECT_EQ(source.told, "mocker is shutting down");
  EXPECT_TRUE(closed);
}

TEST(SessionPermits, AreOfTheirRankAndGivenBack) {
  SessionPermits permits(2, 1);
  auto first = permits.Take(1);
  ASSERT_TRUE(first);
  const auto second = permits.Take(1);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "mocker handoff session limit reached for DP rank 1");
  EXPECT_TRUE(permits.Take(0));
  SessionPermit moved = std::move(*first);
  EXPECT_EQ(permits.taken(1), 1U);
  moved = SessionPermit();
  EXPECT_EQ(permits.taken(1), 0U);
  EXPECT_EQ(permits.refused_total(), 1U);
}

}  // namespace
}  // namespace understudy::worker
