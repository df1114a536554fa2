// What an original decode worker answered to a prefill side that was a script, and what its
// requests heard: ours says the same. Data: tests/vectors/disagg/bootstrap_destination_probes.json.
#include "tests/unit/transport/codec/golden.h"
#include "tests/unit/worker/handoff/golden_exchange.h"
#include "tests/unit/worker/handoff/handoff_fakes.h"
#include "worker/handoff/destination_session.h"

#include <ostream>

namespace understudy::worker {
namespace {

using std::chrono::milliseconds;
using ActionKind = transport::BootstrapAction::Kind;
using AckKind = transport::BootstrapActionAck::Outcome;
using FactKind = transport::BootstrapFact::Kind;
using transport::BootstrapMessage;

/// What the scripted prefill side says, one after the other.
struct Probe {
  const char* name;
  std::vector<BootstrapMessage> says;
  std::uint64_t room = 16;  ///< tokens that its cache misses
  bool leaves = false;      ///< closes the connection in the end
  const char* ending = "";  ///< case with what the request heard, if it is not `name` and _out
  double ends_ms = 0.0;     ///< the session ends by itself
  friend void PrintTo(const Probe& probe, std::ostream* out) { *out << probe.name; }
};

BootstrapMessage Act(std::uint64_t id, ActionKind kind) {
  return transport::BootstrapAction{id, kind, {}, 0.0};
}
BootstrapMessage FactOf(FactKind kind, double bandwidth = 0.0) {
  transport::BootstrapFact fact;
  fact.kind = kind;
  if (kind == FactKind::kSourceHeld) {
    fact.timing = {transport::BootstrapTiming::Mode::kFullPrompt, 40, 45056, bandwidth};
  }
  return fact;
}

class ScriptedPrefill : public SessionTest, public ::testing::WithParamInterface<Probe> {
 protected:
  static golden::Json Cases() {
    return transport::golden::Load("disagg/bootstrap_destination_probes.json").at("cases");
  }
  /// The hand-off id is the captured one, where a frame or a text shows it.
  void SetUp() override {
    const std::string text = frames_.dump() + ending_.dump();
    for (const std::string mark : {"handoff_id\":\"", "HandoffId("}) {
      if (const auto at = text.find(mark); at != std::string::npos) {
        identity_.handoff_id = *ParseUuid(text.substr(at + mark.size(), 36));
      }
    }
    script_->handoff = {identity_.handoff_id};
    session_ = std::make_unique<DestinationSession>(
        place_,
        MakeHandoff(script_),
        std::make_unique<FakeConnection>(loop_, wire_, identity_),
        [this](const Status& status) {
          told_ = status ? "" : status.error().message;
          session_.reset();
        });
    session_->Begin();
  }
  void Say(BootstrapMessage message) {
    if (auto* action = std::get_if<transport::BootstrapAction>(&message)) {
      action->handoff_id = identity_.handoff_id;
    } else if (auto* fact = std::get_if<transport::BootstrapFact>(&message)) {
      fact->handoff_id = identity_.handoff_id;
    }
    wire_->Receive(message);
    Serve();
  }
  /// An engine with room for 64 blocks that does what it is asked.
  void Serve() {
    for (; served_ < script_->asked.size(); ++served_) {
      const std::string& what = script_->asked[served_]->what;
      if (what == "reserve" && std::string(GetParam().name) == "prompt_exceeds_pool") {
        script_->Answer(served_,
                        Fail(Errc::kOverloaded, "destination prompt exceeds the KV pool capacity"));
      } else if (what == "reserve") {
        holds_ = true;
        script_->Answer(served_, HandoffOutcome::kAccepted);
        script_->Happens(engine::DestinationReserved{GetParam().room});
      } else if (what == "activate" && !holds_) {
        script_->Answer(served_,
                        Fail(Errc::kInternal,
                             "unexpected scheduler handoff result for " +
                                 DebugText(script_->handoff) + ": Noop"));
      } else {
        script_->Answer(served_, holds_ ? HandoffOutcome::kApplied : HandoffOutcome::kNoop);
        holds_ = holds_ && what == "activate";
      }
    }
    loop_.RunPosted();
  }
  /// One answer differs on purpose: to an activation that cannot be, ours names the hand-off and
  /// what the engine said. Peers treat every failure alike.
  static BootstrapMessage Expected(const golden::Json& json, engine::HandoffId handoff) {
    BootstrapMessage message = golden::MessageOf(json);
    if (auto* ack = std::get_if<transport::BootstrapActionAck>(&message);
        ack != nullptr && ack->error == "scheduler returned an unexpected result") {
      ack->error = "unexpected scheduler handoff result for " + DebugText(handoff) + ": Noop";
    }
    return message;
  }
  [[nodiscard]] Names CapturedTexts() const {
    Names texts;
    for (const golden::Json& frame : frames_) {
      if (frame.contains("message") && frame.at("message") != "EOF") {
        texts.push_back(DebugText(Expected(frame.at("message"), script_->handoff)));
      }
    }
    return texts;
  }

  const std::string name_ = GetParam().name;
  const golden::Json frames_ = Cases().contains(name_) ? Cases().at(name_) : golden::Json::array();
  const golden::Json ending_ =
      Cases().at(*GetParam().ending != '\0' ? GetParam().ending : name_ + "_out");
  transport::BootstrapIdentity identity_ = kIdentity;
  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::unique_ptr<DestinationSession> session_;
  std::size_t served_ = 0;
  bool holds_ = false;
  std::string told_ = "nothing";
};

TEST_P(ScriptedPrefill, M195_HearsTheSameAndSoDoesTheRequest) {
  const Probe& probe = GetParam();
  for (const BootstrapMessage& message : probe.says) {
    ASSERT_FALSE(wire_->closed);
    Say(message);
  }
  if (probe.leaves) {
    wire_->End(Status());
  } else if (probe.ends_ms > 0.0) {
    Pass(milliseconds(static_cast<int>(probe.ends_ms)) - milliseconds(1));
    EXPECT_FALSE(wire_->closed);
    Pass(milliseconds(1));
    EXPECT_LT(frames_.at(0).at("t_ms").get<double>() - probe.ends_ms, 5.0);
  }
  Serve();
  EXPECT_EQ(wire_->Texts(), CapturedTexts());
  EXPECT_TRUE(wire_->closed);
  EXPECT_EQ(told_, golden::EndingOf(ending_));
}

INSTANTIATE_TEST_SUITE_P(Actions,
                         ScriptedPrefill,
                         ::testing::Values(Probe{"happy",
                                                 {transport::BootstrapRegistered(),
                                                  Act(1, ActionKind::kReserveDestination),
                                                  Act(3, ActionKind::kActivateDestination),
                                                  transport::BootstrapComplete()},
                                                 48},
                                           Probe{"no_registered_dup_action_premature_complete",
                                                 {Act(1, ActionKind::kReserveDestination),
                                                  Act(1, ActionKind::kReserveDestination),
                                                  transport::BootstrapComplete()},
                                                 16,
                                                 false,
                                                 "premature_complete_out"},
                                           Probe{"action_id_reused",
                                                 {Act(1, ActionKind::kReserveDestination),
                                                  Act(1, ActionKind::kActivateDestination)}},
                                           Probe{"misc_actions",
                                                 {Act(1, ActionKind::kReserveDestination),
                                                  Act(2, ActionKind::kReserveDestination),
                                                  Act(3, ActionKind::kReleaseSource),
                                                  Act(4, ActionKind::kSubmitPrefill),
                                                  Act(5, ActionKind::kCancelDestination),
                                                  Act(6, ActionKind::kCancelDestination),
                                                  Act(7, ActionKind::kActivateDestination)},
                                                 16,
                                                 /*leaves=*/true},
                                           Probe{"prompt_exceeds_pool",
                                                 {transport::BootstrapRegistered(),
                                                  Act(1, ActionKind::kReserveDestination)},
                                                 0,
                                                 /*leaves=*/true}),
                         [](const auto& probe) {
                           return "M189_M190_M191_M196_" + std::string(probe.param.name);
                         });

INSTANTIATE_TEST_SUITE_P(
    Faults,
    ScriptedPrefill,
    ::testing::Values(
        Probe{"dst_twice_registered",
              {transport::BootstrapRegistered(), transport::BootstrapRegistered()}},
        Probe{"dst_unexpected_fact",
              {transport::BootstrapRegistered(), FactOf(FactKind::kTransferCompleted)}},
        Probe{"dst_overloaded", {transport::BootstrapOverloaded()}},
        Probe{"dst_protocol_error", {transport::BootstrapProtocolError{"x"}}},
        Probe{"dst_abort", {transport::BootstrapAbort{"x"}}},
        Probe{"dst_ack", {transport::BootstrapActionAck{1, AckKind::kApplied, ""}}},
        Probe{"timing_changed",
              {transport::BootstrapRegistered(),
               FactOf(FactKind::kSourceHeld, 1.0),
               FactOf(FactKind::kSourceHeld, 2.0)}},
        Probe{"timing_invalid",
              {transport::BootstrapRegistered(), FactOf(FactKind::kSourceHeld, -1.0)}},
        Probe{"held_before_registered", {FactOf(FactKind::kSourceHeld, 1.0)}},
        Probe{"server_disconnect", {}, 0, /*leaves=*/true},
        Probe{"session_timeout", {transport::BootstrapRegistered()}, 0, false, "", 1500.0}),
    [](const auto& probe) { return std::string(probe.param.name); });

}  // namespace
}  // namespace understudy::worker
