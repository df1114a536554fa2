// Sessions whose peer, engine and client do anything at any time. The seed of a run that fails is
// shown.
#include "tests/unit/worker/handoff/handoff_fakes.h"
#include "worker/handoff/destination_session.h"
#include "worker/handoff/source_session.h"

#include <algorithm>
#include <random>

namespace understudy::worker {
namespace {

using mocker::handoff::Order;
using std::chrono::milliseconds;
using std::chrono::seconds;
using AckKind = transport::BootstrapActionAck::Outcome;
using ActionKind = transport::BootstrapAction::Kind;
using FactKind = transport::BootstrapFact::Kind;
using Mode = engine::TransferTiming::Mode;
using transport::BootstrapMessage;

constexpr std::uint32_t kRuns = 4000;
constexpr int kSteps = 60;

class SessionProperty : public SessionTest {
 protected:
  virtual void Begin() = 0;
  /// A peer and an engine that do what is right, one step at a time.
  virtual void GoOn() = 0;
  virtual void Anything() = 0;
  [[nodiscard]] virtual bool Lives() const = 0;
  virtual void CheckSaid() const = 0;

  void RunSeeds() {
    std::uint32_t successes = 0;
    for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Reset(seed);
      Begin();
      const std::uint32_t trouble = Below(40);
      for (int step = 0; step < kSteps && Lives(); ++step) {
        if (Chance(trouble)) {
          Anything();
        } else if (Chance(80)) {
          GoOn();
        } else {
          Jump(milliseconds(Below(200)));
        }
        loop_.RunPosted();
      }
      if (Lives()) {
        Finish();
      }
      EXPECT_EQ(told_, 1);
      EXPECT_FALSE(Lives());
      CheckSaid();
      successes += well_ ? 1U : 0U;
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(successes, kRuns / 10);
    EXPECT_LT(successes, kRuns * 9 / 10);
  }

  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }

  void Reset(std::uint32_t seed) {
    random_.seed(seed);
    wire_ = std::make_shared<Wire>();
    script_ = std::make_shared<Script>();
    answered_ = 0;
    told_ = 0;
    well_ = false;
  }
  HandoffRequest Handoff() {
    HandoffRequest handoff = MakeHandoff(script_);
    handoff.permit = *permits_.Take(0);
    return handoff;
  }
  void Over(const Status& status) {
    ++told_;
    well_ = status.has_value();
    EXPECT_TRUE(wire_->closed) << "nobody hears of the end before it is one";
    EXPECT_EQ(permits_.taken(0), 0U);
    EXPECT_FALSE(script_->registered);
  }

  void Jump(Nanoseconds time) {
    clock_.Advance(time);
    loop_.Advance(time);
    loop_.RunPosted();
  }
  void Say(const BootstrapMessage& message) {
    if (!wire_->closed) {
      wire_->Receive(message);
    }
  }
  void LosePeer() {
    if (!wire_->closed) {
      const bool lies = Chance(30);
      wire_->refusal = lies ? Status() : Fail(Errc::kUnavailable, "channel closed");
      wire_->End(Chance(50) ? Status() : Fail(lies ? Errc::kMalformed : Errc::kUnavailable, "x"));
    }
  }
  void WriteOut() {
    wire_->stuck = Chance(50);
    for (Task& task : std::exchange(wire_->unwritten, {})) {
      loop_.Post(std::move(task));
    }
  }
  /// The oldest question that has no answer yet.
  void AnswerEngine(bool right) {
    if (answered_ == script_->asked.size()) {
      return;
    }
    const std::string& what = script_->asked[answered_]->what;
    constexpr HandoffOutcome kAll[] = {HandoffOutcome::kSubmitted,
                                       HandoffOutcome::kAccepted,
                                       HandoffOutcome::kApplied,
                                       HandoffOutcome::kNoop};
    Result<HandoffOutcome> outcome = what == "submit"    ? HandoffOutcome::kSubmitted
                                     : what == "reserve" ? HandoffOutcome::kAccepted
                                                         : HandoffOutcome::kApplied;
    if (!right) {
      outcome = Chance(50) ? Result<HandoffOutcome>(kAll[Below(4)]) : Fail(Errc::kInternal, "no");
    }
    script_->Answer(answered_++, outcome);
  }
  /// Ends whatever still runs.
  void Finish() {
    while (answered_ < script_->asked.size()) {
      AnswerEngine(true);
      loop_.RunPosted();
    }
    if (!wire_->closed) {
      wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
      wire_->End(Status());
    }
    while (answered_ < script_->asked.size()) {
      AnswerEngine(true);
      loop_.RunPosted();
    }
    Jump(place_.cleanup_timeout());
    EXPECT_EQ(told_, 1);
    EXPECT_EQ(loop_.timers_armed(), 0U);
    EXPECT_EQ(permits_.taken(0), 0U);
  }
  [[nodiscard]] bool Asked(const std::string& what) const {
    return std::any_of(script_->asked.begin(), script_->asked.end(), [&](const auto& one) {
      return one->what == what;
    });
  }
  template <class Message>
  [[nodiscard]] std::size_t CountSaid() const {
    return static_cast<std::size_t>(
        std::count_if(wire_->sent.begin(), wire_->sent.end(), [](const BootstrapMessage& message) {
          return std::holds_alternative<Message>(message);
        }));
  }

  BootstrapMessage AnyAck() {
    return transport::BootstrapActionAck{
        Below(8), static_cast<AckKind>(Below(6)), Chance(50) ? "text" : ""};
  }
  BootstrapMessage AnyFact() {
    transport::BootstrapFact fact;
    fact.kind = static_cast<FactKind>(Below(6));
    fact.handoff_id = Chance(90) ? kIdentity.handoff_id : Uuid{1, 1};
    fact.transferable_prompt_tokens = Chance(20) ? ~0ULL : Below(100);
    fact.timing = {Chance(50) ? transport::BootstrapTiming::Mode::kFullPrompt
                              : transport::BootstrapTiming::Mode::kDestinationMissing,
                   Chance(10) ? ~0ULL : 40,
                   45056,
                   Chance(10) ? -1.0 : 0.01};
    return fact;
  }
  BootstrapMessage AnyAction() {
    return transport::BootstrapAction{Below(20),
                                      static_cast<ActionKind>(Below(8)),
                                      Chance(95) ? kIdentity.handoff_id : Uuid{1, 1},
                                      Chance(50) ? 1.0 : -1.0};
  }
  BootstrapMessage AnyMessage() {
    switch (Below(8)) {
      case 0:
      case 1:
        return AnyAck();
      case 2:
        return AnyFact();
      case 3:
      case 4:
        return AnyAction();
      case 5:
        return transport::BootstrapRegistered();
      case 6:
        return transport::BootstrapComplete();
      default:
        return Chance(50) ? BootstrapMessage(transport::BootstrapAbort{"x"})
                          : BootstrapMessage(transport::BootstrapOverloaded());
    }
  }
  std::optional<engine::HandoffEvent> AnyEvent() {
    if (Chance(10)) {
      return std::nullopt;
    }
    if (Chance(30)) {
      return engine::DestinationReserved{Chance(10) ? ~0ULL : Below(100)};
    }
    return engine::SourceHeld{Timing(Chance(90) ? Mode::kFullPrompt : Mode::kDestinationMissing)};
  }

  std::mt19937 random_;
  std::shared_ptr<Wire> wire_;
  std::shared_ptr<Script> script_;
  SessionPermits permits_{1, 1};
  std::size_t answered_ = 0;
  int told_ = 0;
  bool well_ = false;
};

class SourceProperty : public SessionProperty {
 protected:
  void Begin() override {
    SourceParticipant source;
    source.identity = kIdentity;
    source.order = Chance(50) ? Order::kSourceFirst : Order::kDestinationFirst;
    source.handoff = Handoff();
    source.completion = [this](const Status& status) { Over(status); };
    session_ = std::make_unique<SourceSession>(
        place_, std::move(source), std::make_unique<FakeConnection>(loop_, wire_), [this] {
          session_.reset();
        });
    session_->Begin();
    step_ = 0;
  }
  void GoOn() override {
    AnswerEngine(true);
    if (Asked("submit") && step_ == 0 && Chance(50)) {
      step_ = 1;
      script_->Happens(engine::SourceHeld{Timing()});
    }
    if (wire_->sent.empty() || wire_->closed) {
      return;
    }
    const auto* action = std::get_if<transport::BootstrapAction>(&wire_->sent.back());
    if (action == nullptr) {
      return;
    }
    const bool reserves = action->kind == ActionKind::kReserveDestination;
    Say(Ack(action->id, reserves ? AckKind::kAccepted : AckKind::kApplied));
    if (reserves) {
      Say(Reserved(16));
    }
  }
  void Anything() override {
    const std::uint32_t kind = Below(100);
    if (kind < 25) {
      Say(AnyMessage());
    } else if (kind < 45) {
      script_->Happens(AnyEvent());
    } else if (kind < 60) {
      AnswerEngine(false);
    } else if (kind < 70 && session_) {
      session_->Cancel();
    } else if (kind < 75 && session_) {
      session_->Shutdown();
    } else if (kind < 85) {
      LosePeer();
    } else if (kind < 95) {
      WriteOut();
    } else {
      Jump(seconds(2));
    }
  }
  [[nodiscard]] bool Lives() const override { return session_ != nullptr; }
  void CheckSaid() const override {
    ASSERT_FALSE(wire_->sent.empty());
    EXPECT_TRUE(std::holds_alternative<transport::BootstrapRegistered>(wire_->sent.front()));
    EXPECT_LE(CountSaid<transport::BootstrapAction>(), 3U);
    EXPECT_LE(CountSaid<transport::BootstrapAbort>(), 2U);
    if (well_) {
      EXPECT_TRUE(std::holds_alternative<transport::BootstrapComplete>(wire_->sent.back()));
      EXPECT_TRUE(Asked("release"));
    } else {
      EXPECT_TRUE(Asked("cancel source") || !Asked("submit"));
    }
  }

  std::unique_ptr<SourceSession> session_;
  int step_ = 0;
};

TEST_F(SourceProperty, EverySessionEndsOnceAndLeavesNothing) {
  RunSeeds();
}

class DestinationProperty : public SessionProperty {
 protected:
  void Begin() override {
    session_ = std::make_unique<DestinationSession>(place_,
                                                    Handoff(),
                                                    std::make_unique<FakeConnection>(loop_, wire_),
                                                    [this](const Status& status) {
                                                      Over(status);
                                                      session_.reset();
                                                    });
    session_->Begin();
    step_ = 0;
  }
  void GoOn() override {
    AnswerEngine(true);
    const std::size_t said = wire_->sent.size();
    if (step_ == 0) {
      Say(transport::BootstrapRegistered());
      Say(Action(1, ActionKind::kReserveDestination));
    } else if (step_ == 1 && said >= 1) {
      script_->Happens(engine::DestinationReserved{16});
    } else if (step_ == 2) {
      Say(Action(3, ActionKind::kActivateDestination));
    } else if (step_ == 3 && said >= 3) {
      Say(transport::BootstrapComplete());
    } else {
      return;
    }
    ++step_;
  }
  void Anything() override {
    const std::uint32_t kind = Below(100);
    if (kind < 30) {
      Say(AnyMessage());
    } else if (kind < 45) {
      script_->Happens(AnyEvent());
    } else if (kind < 65) {
      AnswerEngine(false);
    } else if (kind < 75 && session_) {
      session_->Cancel();
    } else if (kind < 80 && session_) {
      session_->Shutdown();
    } else if (kind < 90) {
      LosePeer();
    } else {
      Jump(seconds(2));
    }
  }
  [[nodiscard]] bool Lives() const override { return session_ != nullptr; }
  void CheckSaid() const override {
    EXPECT_EQ(CountSaid<transport::BootstrapAbort>(), 0U) << "a destination just closes";
    EXPECT_EQ(CountSaid<transport::BootstrapAction>(), 0U);
    EXPECT_LE(CountSaid<transport::BootstrapFact>(), 1U);
    bool accepted = false;
    for (const BootstrapMessage& message : wire_->sent) {
      const auto* ack = std::get_if<transport::BootstrapActionAck>(&message);
      accepted = accepted || (ack != nullptr && ack->outcome == AckKind::kAccepted);
      EXPECT_TRUE(accepted || !std::holds_alternative<transport::BootstrapFact>(message));
    }
    EXPECT_LE(std::count_if(script_->asked.begin(),
                            script_->asked.end(),
                            [](const auto& one) { return one->what == "reserve"; }),
              1);
    EXPECT_TRUE(well_ ? Asked("activate") : Asked("cancel destination"));
  }

  std::unique_ptr<DestinationSession> session_;
  int step_ = 0;
};

TEST_F(DestinationProperty, EverySessionEndsOnceAndLeavesNothing) {
  RunSeeds();
}

}  // namespace
}  // namespace understudy::worker
