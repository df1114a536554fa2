// Peers at a rendezvous that are silent, slow, loud or wrong: each gets an answer or is closed,
// what it costs is bounded, and others are served. Source: mission.md C.2, C.5 to C.7;
// vectors/disagg/bootstrap_{source,destination}_probes.
#include "tests/integration/worker/disagg_case.h"

#include <fstream>
#include <ostream>

namespace understudy::worker {
namespace {

using transport::BootstrapAction;
using transport::BootstrapActionAck;
using transport::BootstrapFact;
using transport::BootstrapMessage;

const Arguments kEndlessTransfer = {
    "--kv-bytes-per-token", "1000000", "--kv-transfer-bandwidth", "0.00001"};

class HandoffPeers : public HandoffTest {
 protected:
  [[nodiscard]] Arguments SessionTimeout(const std::string& ms) const {
    const std::string path = folder().path() + "/engine-" + ms + ".json";
    std::ofstream(path) << R"({"dynamo":{"enable_local_indexer":true,"handoff_session_timeout_ms":)"
                        << ms << "}}";
    return {"--extra-engine-args", path};
  }
  static BootstrapFact Reserved(const Attempt& attempt) {
    BootstrapFact fact;
    fact.kind = BootstrapFact::Kind::kDestinationReserved;
    fact.handoff_id = *attempt.info.handoff_id;
    fact.transferable_prompt_tokens = 64;
    return fact;
  }
};

// ---- at a prefill worker: destinations ----

TEST_F(HandoffPeers, M144_SilentConnectionsTakeTheirSlotsAndNoMore) {
  const auto prefill = StartSource({"--max-num-seqs", "4"});
  const auto port = BootstrapPort(*prefill);
  const auto before = prefill->sockets();
  std::vector<std::unique_ptr<BootstrapPeer>> silent;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(BootstrapPeer::Dial(port, {}));
    ASSERT_TRUE(silent.back());
  }
  ASSERT_TRUE(Eventually([&] { return prefill->sockets() >= before + 4; }));
  const auto attempt = NewAttempt(port);
  const auto refused = BootstrapPeer::Dial(port, attempt.identity());
  ASSERT_TRUE(refused);
  refused->Register();
  EXPECT_EQ(refused->ReceiveUntil("Overloaded"), "Overloaded");
  silent.clear();
  ASSERT_TRUE(Eventually([&] { return prefill->sockets() <= before; }));
  const auto decode = StartDecode();
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_F(HandoffPeers, AFloodOfNoiseLeavesNothingBehind) {
  const auto prefill = StartSource();
  const auto decode = StartDecode();
  const auto port = BootstrapPort(*prefill);
  ASSERT_EQ(WhyNotHandedOver(*prefill, *decode), "");
  const auto sockets = prefill->sockets();
  const std::string noise[] = {std::string(100'000, '\xee'),
                               std::string("DMHF\x02\0\0\0", 8),
                               std::string("DMHF\x01\0\0\0\0\0\0\0", 12),
                               std::string("DMHF\x01\0\0\0\xff\xff\xff\xff", 12),
                               std::string("DMHF\x01\0\0\0\x04\0\0\0{{{{", 16)};
  constexpr int kRounds = 200;
  for (int i = 0; i < kRounds; ++i) {
    const auto peer = BootstrapPeer::Dial(port, {});
    ASSERT_TRUE(peer);
    peer->SendBytes(noise[i % 5]);
  }
  ASSERT_TRUE(Eventually([&] { return prefill->sockets() <= sockets; }));
  EXPECT_EQ(WhyNotHandedOver(*prefill, *decode), "");
}

TEST_F(HandoffPeers, ARegistrationMayComeByteByByte) {
  const auto prefill = StartSource();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  std::string bytes;
  transport::AppendBootstrapHeader(bytes);
  ASSERT_TRUE(
      transport::AppendBootstrapFrame(bytes, {attempt.identity(), transport::BootstrapRegister{}}));
  for (const char byte : bytes) {
    peer->SendBytes({&byte, 1});
  }
  EXPECT_EQ(peer->ReceiveUntil("Registered"), "Registered");
}

TEST_F(HandoffPeers, M179_ADestinationThatNeverAnswersIsLeftAtTheSessionTimeout) {
  const auto prefill = StartSource(SessionTimeout("300"));
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  EXPECT_EQ(peer->ReceiveUntil("Abort"), R"(Abort { message: "handoff session timed out" })");
  EXPECT_TRUE(peer->WaitClosed());
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->error(), "handoff session timed out");
  ExpectIdle(*prefill);
}

struct Lie {
  const char* name;
  void (*tell)(BootstrapPeer& peer, const Attempt& attempt);
  const char* text;  ///< of the Abort, and of the request's own error
};
void PrintTo(const Lie& value, std::ostream* out) {
  *out << value.name;
}

const Lie kDestinationLies[] = {
    {"ReservedBeforeAccepted",
     [](BootstrapPeer& peer, const Attempt& attempt) {
       BootstrapFact fact;
       fact.kind = BootstrapFact::Kind::kDestinationReserved;
       fact.handoff_id = *attempt.info.handoff_id;
       fact.transferable_prompt_tokens = 1;
       peer.Send(fact);
     },
     "destination reserved before ownership was accepted"},
    {"AckOfNothing",
     [](BootstrapPeer& peer, const Attempt&) {
       peer.Send(BootstrapActionAck{77, BootstrapActionAck::Outcome::kApplied, ""});
     },
     "unknown handoff action HandoffActionId(77)"},
    {"WrongOutcome",
     [](BootstrapPeer& peer, const Attempt&) {
       peer.Send(BootstrapActionAck{1, BootstrapActionAck::Outcome::kApplied, ""});
     },
     "invalid handoff action outcome Applied"},
    {"Complete",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapComplete{}); },
     "unexpected destination bootstrap message: Complete"},
    {"Overloaded",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapOverloaded{}); },
     "destination overloaded"},
    {"OwnText",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapAbort{"no room"}); },
     "no room"},
    {"ZeroLength",
     [](BootstrapPeer& peer, const Attempt&) { peer.SendBytes(std::string(4, '\0')); },
     "bootstrap received an empty frame"},
    {"TooLong",
     [](BootstrapPeer& peer, const Attempt&) { peer.SendBytes(std::string("\x01\0\x01\0", 4)); },
     "frame size too big"},
    {"NoJson",
     [](BootstrapPeer& peer, const Attempt&) { peer.SendBytes(std::string("\x02\0\0\0{]", 6)); },
     "bootstrap frame contains malformed JSON"},
    {"OtherIdentity",
     [](BootstrapPeer& peer, const Attempt& attempt) {
       std::string frame;
       auto identity = attempt.identity();
       ++identity.room;
       ASSERT_TRUE(
           transport::AppendBootstrapFrame(frame, {identity, transport::BootstrapComplete{}}));
       peer.SendBytes(frame);
     },
     "bootstrap frame changed session identity"},
};

class LyingDestination : public HandoffPeers, public ::testing::WithParamInterface<Lie> {};
INSTANTIATE_TEST_SUITE_P(Lies,
                         LyingDestination,
                         ::testing::ValuesIn(kDestinationLies),
                         [](const auto& lie) { return lie.param.name; });

TEST_P(LyingDestination, M187_IsToldSoAndTheSourceGivesItsBlocksBack) {
  const auto prefill = StartSource();
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  ASSERT_NE(peer->ReceiveUntil("Action"), "closed");
  GetParam().tell(*peer, attempt);
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->error(), GetParam().text);
  EXPECT_EQ(source->kinds().back(), Kind::kSentinel);
  EXPECT_TRUE(peer->WaitClosed());
  ExpectIdle(*prefill);
}

TEST_F(HandoffPeers, AFloodOfFramesEndsItsOwnSessionOnly) {
  const auto prefill = StartSource(kEndlessTransfer);
  const auto quiet = NewAttempt(BootstrapPort(*prefill));
  const auto other = SendTo(*prefill, quiet);
  const auto attempt = NewAttempt(BootstrapPort(*prefill));
  const auto source = SendTo(*prefill, attempt);
  const auto peer = BootstrapPeer::Dial(attempt.info.port, attempt.identity());
  ASSERT_TRUE(peer);
  peer->Register();
  ASSERT_NE(peer->ReceiveUntil("Action"), "closed");
  const auto resident = prefill->resident_bytes();
  std::string flood;
  for (int i = 0; i < 100'000; ++i) {  // 25 MB of answers that were given before
    ASSERT_TRUE(transport::AppendBootstrapFrame(
        flood,
        {attempt.identity(),
         BootstrapActionAck{1, BootstrapActionAck::Outcome::kAccepted, std::string()}}));
  }
  peer->SendBytes(flood);
  EXPECT_LT(prefill->resident_bytes(), resident + (8U << 20U));
  peer->Send(transport::BootstrapComplete{});
  ASSERT_TRUE(source->WaitClosed());
  EXPECT_EQ(source->error(), "unexpected destination bootstrap message: Complete");
  EXPECT_EQ(other->error(), "");
  frontend().Control(*other, StreamControl::kKill);
  ExpectIdle(*prefill);
}

// ---- at a decode worker: sources ----

class FakeSource : public HandoffPeers {
 protected:
  /// The other end of a decode request's connection, its registration read.
  std::unique_ptr<BootstrapPeer> Accept(const Attempt& attempt) {
    auto peer = listener_.Accept();
    if (!peer) {
      return nullptr;
    }
    auto source = std::make_unique<BootstrapPeer>(std::move(peer), attempt.identity());
    EXPECT_TRUE(source->ReadHeader());
    EXPECT_TRUE(source->ReceiveUntil("Register").starts_with("Register"));
    return source;
  }
  static BootstrapAction Action(const Attempt& attempt,
                                std::uint64_t id,
                                BootstrapAction::Kind kind) {
    return {id, kind, *attempt.info.handoff_id, 0.0};
  }
  PeerListener listener_;
};

TEST_F(FakeSource, DrivesADecodeWorkerThroughAHandoff) {
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(listener_.port());
  const auto call = SendTo(*decode, attempt, 5);
  const auto source = Accept(attempt);
  ASSERT_TRUE(source);
  source->Send(transport::BootstrapRegistered{});
  source->Send(Action(attempt, 1, BootstrapAction::Kind::kReserveDestination));
  EXPECT_EQ(source->ReceiveUntil("ActionAck").find("Accepted") == std::string::npos, false);
  EXPECT_NE(source->ReceiveUntil("Fact(DestinationReserved"), "closed");
  EXPECT_TRUE(call->tokens().empty());
  source->Send(Action(attempt, 3, BootstrapAction::Kind::kActivateDestination));
  EXPECT_NE(source->ReceiveUntil("ActionAck").find("Applied"), std::string::npos);
  source->Send(Action(attempt, 3, BootstrapAction::Kind::kActivateDestination));
  EXPECT_NE(source->ReceiveUntil("ActionAck").find("Applied"), std::string::npos)
      << "the same action gets the same answer";
  ASSERT_TRUE(call->WaitTokens(5));
  source->Send(transport::BootstrapComplete{});
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(5), "");
  EXPECT_TRUE(source->WaitClosed());
  ExpectIdle(*decode);
}

TEST_F(FakeSource, ASilentOneIsLeftWhenTheClientLeaves) {
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(listener_.port());
  const auto call = SendTo(*decode, attempt, 5);
  const auto source = Accept(attempt);
  ASSERT_TRUE(source);
  frontend().Control(*call, StreamControl::kKill);
  EXPECT_TRUE(source->WaitClosed());
  ExpectIdle(*decode);
}

TEST_F(FakeSource, M193_OneThatStopsIsLeftAtTheSessionTimeout) {
  const auto decode = StartDecode(SessionTimeout("301"));
  const auto attempt = NewAttempt(listener_.port());
  const auto call = SendTo(*decode, attempt, 5);
  const auto source = Accept(attempt);
  ASSERT_TRUE(source);
  source->Send(transport::BootstrapRegistered{});
  source->Send(Action(attempt, 1, BootstrapAction::Kind::kReserveDestination));
  EXPECT_NE(source->ReceiveUntil("Fact(DestinationReserved"), "closed");
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->error(), "destination handoff ended before completion");
  EXPECT_TRUE(source->WaitClosed());
  ExpectIdle(*decode);
}

const Lie kSourceLies[] = {
    {"RegisteredTwice",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapRegistered{}); },
     "source registered the destination more than once"},
    {"CompleteTooEarly",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapComplete{}); },
     "source completed before destination activation finished"},
    {"Overloaded",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapOverloaded{}); },
     "unexpected source bootstrap message: Overloaded"},
    {"Abort",
     [](BootstrapPeer& peer, const Attempt&) { peer.Send(transport::BootstrapAbort{"x"}); },
     "destination handoff ended before completion"},
    {"ReusedId",
     [](BootstrapPeer& peer, const Attempt& attempt) {
       peer.Send(BootstrapAction{
           1, BootstrapAction::Kind::kReserveDestination, *attempt.info.handoff_id, 0.0});
       peer.Send(BootstrapAction{
           1, BootstrapAction::Kind::kCancelDestination, *attempt.info.handoff_id, 0.0});
     },
     "destination received a new action while another was pending"},
    {"NegativeBandwidth",
     [](BootstrapPeer& peer, const Attempt& attempt) {
       BootstrapFact fact;
       fact.kind = BootstrapFact::Kind::kSourceHeld;
       fact.handoff_id = *attempt.info.handoff_id;
       fact.timing.full_prompt_tokens = 60;
       fact.timing.kv_bytes_per_token = 1;
       fact.timing.bandwidth_gb_s = -1.0;
       peer.Send(fact);
     },
     "invalid handoff transfer bandwidth -1"},
    {"NoJson",
     [](BootstrapPeer& peer, const Attempt&) { peer.SendBytes(std::string("\x02\0\0\0{]", 6)); },
     "bootstrap frame contains malformed JSON"},
    {"Gone",
     [](BootstrapPeer& peer, const Attempt&) { peer.peer().Close(); },
     "destination handoff ended before completion"},
};

class LyingSource : public FakeSource, public ::testing::WithParamInterface<Lie> {};
INSTANTIATE_TEST_SUITE_P(Lies, LyingSource, ::testing::ValuesIn(kSourceLies), [](const auto& lie) {
  return lie.param.name;
});

TEST_P(LyingSource, M195_IsLeftAndTheRequestSaysWhy) {
  const auto decode = StartDecode();
  const auto attempt = NewAttempt(listener_.port());
  const auto call = SendTo(*decode, attempt, 5);
  const auto source = Accept(attempt);
  ASSERT_TRUE(source);
  source->Send(transport::BootstrapRegistered{});
  GetParam().tell(*source, attempt);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->error(), GetParam().text);
  EXPECT_EQ(call->kinds().back(), Kind::kSentinel);
  if (source->peer().fd() >= 0) {
    EXPECT_TRUE(source->WaitClosed());
  }
  ExpectIdle(*decode);
  EXPECT_EQ(WhyNotServing(*decode), "");
}

}  // namespace
}  // namespace understudy::worker
