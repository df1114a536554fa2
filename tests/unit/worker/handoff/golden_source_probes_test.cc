// What an original prefill worker answered to a decode side that was a script, and what its
// requests heard: ours says the same. Data: tests/vectors/disagg/bootstrap_source_probes.json, and
// those of bootstrap_destination_probes.json that are about requests without a partner.
#include "tests/unit/transport/codec/golden.h"
#include "tests/unit/worker/handoff/golden_exchange.h"
#include "tests/unit/worker/handoff/handoff_fakes.h"
#include "worker/handoff/source_manager.h"

#include <deque>
#include <ostream>

namespace understudy::worker {
namespace {

using mocker::handoff::Order;
using std::chrono::milliseconds;
using std::chrono::seconds;
using AckKind = transport::BootstrapActionAck::Outcome;
using transport::BootstrapIdentity;
using transport::BootstrapMessage;

constexpr const char* kSourceProbes = "bootstrap_source_probes";
constexpr const char* kDestinationProbes = "bootstrap_destination_probes";

/// The originals ran with a session timeout of 1.5 s and two sessions.
class SourceProbes : public SessionTest {
 protected:
  static golden::Json Case(const char* file, const std::string& name) {
    static std::map<std::string, golden::Json> files;
    if (!files.contains(file)) {
      files[file] = transport::golden::Load(std::string("disagg/") + file + ".json");
    }
    return files[file].at("cases").at(name);
  }
  static golden::Json Case(const std::string& name) { return Case(kSourceProbes, name); }
  /// What the scripted side received until the connection was closed.
  static Names MessagesOf(const golden::Json& frames) {
    Names texts;
    for (const golden::Json& frame : frames) {
      if (frame.at("message") != "EOF" && frame.at("message") != "TIMEOUT") {
        texts.push_back(DebugText(golden::MessageOf(frame.at("message"))));
      }
    }
    return texts;
  }
  static bool Closed(const golden::Json& frames) { return frames.back().at("message") == "EOF"; }

  static BootstrapIdentity Identity(std::uint64_t id) { return {{0, id}, id, {1, id}}; }
  struct Source {
    std::shared_ptr<Script> script = std::make_shared<Script>();
    std::string told;
    SourceManager::Ticket ticket{};
  };
  Source& Offer(const BootstrapIdentity& identity) {
    Source& source = sources_.emplace_back();
    SourceParticipant participant;
    participant.identity = identity;
    source.script->handoff = {identity.handoff_id};
    participant.handoff = MakeHandoff(source.script);
    participant.completion = [&source](const Status& status) {
      source.told = status ? "well" : status.error().message;
    };
    source.ticket = *manager_.Offer(std::move(participant));
    loop_.RunPosted();
    return source;
  }
  std::shared_ptr<Wire> Arrive(const BootstrapIdentity& identity) {
    auto wire = std::make_shared<Wire>();
    manager_.OnDestination(
        {identity,
         {0, transport::BootstrapOrder::kSourceFirst, transport::BootstrapEngine::kVllm},
         std::make_unique<FakeConnection>(loop_, wire, identity)});
    loop_.RunPosted();
    return wire;
  }

  SourceManager manager_{place_, 2};
  std::deque<Source> sources_;
};

/// What the scripted decode side says once it has been asked for room, and how it goes on.
struct Probe {
  const char* name;
  std::vector<BootstrapMessage> says;
  bool breaks = false;   ///< its last frame belongs to another hand-off
  bool leaves = false;   ///< closes the connection
  double ends_ms = 0.0;  ///< the session ends by itself
  friend void PrintTo(const Probe& probe, std::ostream* out) { *out << probe.name; }
};

BootstrapMessage AckOf(std::uint64_t id, AckKind kind, const char* error = "") {
  return transport::BootstrapActionAck{id, kind, error};
}

class ScriptedDecode : public SourceProbes, public ::testing::WithParamInterface<Probe> {
 protected:
  /// Until the decode side has been asked for room.
  void ToReserve() {
    const golden::Json& held = frames_.at(1).at("message");
    const auto fact = std::get<transport::BootstrapFact>(golden::MessageOf(held));
    identity_ = {fact.handoff_id, 7, {5, 5}};
    source_ = &Offer(identity_);
    wire_ = Arrive(identity_);
    source_->script->Answer(0, HandoffOutcome::kSubmitted);
    source_->script->Happens(engine::SourceHeld{Timing()});
    loop_.RunPosted();
  }
  void Serve() {
    Script& script = *source_->script;
    for (; served_ < script.asked.size(); ++served_) {
      script.Answer(served_, HandoffOutcome::kApplied);
    }
    loop_.RunPosted();
  }
  /// Of its own hand-off.
  BootstrapMessage Own(BootstrapMessage message) const {
    if (auto* fact = std::get_if<transport::BootstrapFact>(&message)) {
      fact->handoff_id = identity_.handoff_id;
    }
    return message;
  }

  const golden::Json frames_ = Case(GetParam().name);
  BootstrapIdentity identity_;
  Source* source_ = nullptr;
  std::shared_ptr<Wire> wire_;
  std::size_t served_ = 1;
};

TEST_P(ScriptedDecode, M187_HearsTheSameAndSoDoesTheRequest) {
  const Probe& probe = GetParam();
  ToReserve();
  for (const BootstrapMessage& message : probe.says) {
    wire_->Receive(Own(message));
    Serve();
  }
  if (probe.breaks) {
    wire_->End(Fail(Errc::kMalformed, "bootstrap frame changed session identity"));
  } else if (probe.leaves) {
    wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
    wire_->End(Status());
  } else if (probe.ends_ms > 0.0) {
    Pass(milliseconds(static_cast<int>(probe.ends_ms)));
    EXPECT_FALSE(wire_->closed);
    Pass(milliseconds(1));
    const double captured_ms = frames_.at(frames_.size() - 2).at("t_ms");
    EXPECT_GE(captured_ms, probe.ends_ms);
    EXPECT_LT(captured_ms, probe.ends_ms + 25.0);
  }
  Serve();
  EXPECT_EQ(wire_->Texts(), MessagesOf(frames_));
  EXPECT_EQ(wire_->closed, Closed(frames_));
  EXPECT_EQ(source_->told, golden::EndingOf(Case(std::string(probe.name) + "_source")));
}

BootstrapMessage Room() {
  transport::BootstrapFact fact;
  fact.kind = transport::BootstrapFact::Kind::kDestinationReserved;
  fact.transferable_prompt_tokens = 48;
  return fact;
}

INSTANTIATE_TEST_SUITE_P(
    Cases,
    ScriptedDecode,
    ::testing::Values(Probe{"fact_before_ack", {Room()}},
                      Probe{"unknown_action", {AckOf(99, AckKind::kApplied)}},
                      Probe{"wrong_outcome", {AckOf(1, AckKind::kApplied)}},
                      Probe{"conflicting_outcome",
                            {AckOf(1, AckKind::kAccepted), AckOf(1, AckKind::kApplied)}},
                      Probe{"identity_changed", {}, /*breaks=*/true},
                      Probe{"unexpected_complete", {transport::BootstrapComplete()}},
                      Probe{"dest_abort", {transport::BootstrapAbort{"dest says no"}}},
                      Probe{"dest_disconnect", {}, false, /*leaves=*/true},
                      Probe{"dest_overloaded", {transport::BootstrapOverloaded()}}),
    [](const auto& probe) { return std::string(probe.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Timed,  // 1.5 s and a transfer of 180.224 ms
    ScriptedDecode,
    ::testing::Values(
        Probe{"session_timeout_1500ms", {}, false, false, 1680.0},
        Probe{"reserve_failed", {AckOf(1, AckKind::kFailed, "no room")}, false, false, 1680.0}),
    [](const auto& probe) { return "M179_M188_" + std::string(probe.param.name); });

class ScriptedSuccess : public ScriptedDecode {};

TEST_P(ScriptedSuccess, M176_TheFlowIsTheCapturedOne) {
  ToReserve();
  wire_->Receive(AckOf(1, AckKind::kAccepted));
  wire_->Receive(Own(Room()));
  Pass(milliseconds(181));
  wire_->Receive(AckOf(3, AckKind::kApplied));
  Serve();
  EXPECT_EQ(wire_->Texts(), MessagesOf(frames_));
  EXPECT_TRUE(wire_->closed);
  EXPECT_EQ(source_->told, "well");
  EXPECT_EQ(golden::EndingOf(Case("scripted_success_source")), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, ScriptedSuccess, ::testing::Values(Probe{"scripted_success", {}}));

TEST_F(SourceProbes, M167_M214_WhoHasAnotherRequestIdDoesNotMatchAndTheIdIsRetired) {
  BootstrapIdentity other = Identity(1);
  other.request_id = {9, 9};
  const auto wire = Arrive(other);
  EXPECT_EQ(Offer(Identity(1)).told, golden::EndingOf(Case("identity_mismatch_source")));
  EXPECT_EQ(wire->Texts(), MessagesOf(Case("identity_mismatch_dest")));
  EXPECT_TRUE(wire->closed);
  EXPECT_EQ(Offer(Identity(1)).told, golden::EndingOf(Case("retired_source"))) << "M-169";
  const auto late = Arrive(Identity(1));
  EXPECT_EQ(late->Texts(), MessagesOf(Case("retired_dest")));
  EXPECT_TRUE(late->closed);
}

TEST_F(SourceProbes, M168_TheSecondOfTwoDestinationsIsRefused) {
  Arrive(Identity(1));
  const auto second = Arrive(Identity(1));
  EXPECT_EQ(second->Texts(), MessagesOf(Case("duplicate_destination")));
  EXPECT_TRUE(second->closed);
}

TEST_F(SourceProbes, M169_ADestinationOfAnActiveHandoffIsRefused) {
  Offer(Identity(1));
  const auto first = Arrive(Identity(1));
  const auto second = Arrive(Identity(1));
  EXPECT_EQ(second->Texts(), MessagesOf(Case("active_dup_destination")));
  EXPECT_TRUE(second->closed);
  EXPECT_FALSE(first->closed);
}

TEST_F(SourceProbes, M170_BeyondTheLimitDestinationsAreToldSo) {
  std::vector<std::shared_ptr<Wire>> wires;
  const golden::Json said = Case("overload_third_destination");
  for (std::size_t i = 0; i < said.size(); ++i) {
    wires.push_back(Arrive(Identity(i)));
    const golden::Json& message = said.at(i).at("message");
    const Names expected =
        message == "TIMEOUT" ? Names() : Names{DebugText(golden::MessageOf(message))};
    EXPECT_EQ(wires.back()->Texts(), expected) << i;
  }
}

TEST_F(SourceProbes, M171_WithoutAPartnerBothAreToldAfterThirtySeconds) {
  const golden::Json to_source = Case(kDestinationProbes, "source_rendezvous_timeout");
  const golden::Json to_destination = Case(kDestinationProbes, "dest_rendezvous_timeout");
  Source& source = Offer(Identity(1));
  const auto wire = Arrive(Identity(2));
  Pass(seconds(30) - milliseconds(1));
  EXPECT_EQ(source.told, "");
  EXPECT_TRUE(wire->sent.empty());
  Pass(milliseconds(1) + SourceManager::kSweepInterval);
  EXPECT_EQ(source.told, golden::EndingOf(to_source));
  EXPECT_EQ(wire->Texts(), MessagesOf(to_destination));
  EXPECT_TRUE(wire->closed);
  EXPECT_LT(to_source.at(2).at("t_ms"), 30100.0) << "the same sweep";
}

TEST_F(SourceProbes, M172_AStoppedSourceRetiresItsId) {
  manager_.Cancel(Offer(Identity(1)).ticket);
  Pass(SourceManager::kSweepInterval);
  EXPECT_EQ(Arrive(Identity(1))->Texts(),
            MessagesOf(Case(kDestinationProbes, "dest_after_source_stopped")));
}

TEST_F(SourceProbes, M173_ADestinationThatLeftRetiresItsId) {
  Arrive(Identity(1))->peer_closed = true;
  Pass(SourceManager::kSweepInterval);
  EXPECT_EQ(Offer(Identity(1)).told,
            golden::EndingOf(Case(kDestinationProbes, "source_after_dest_disconnect_pending")));
}

}  // namespace
}  // namespace understudy::worker
