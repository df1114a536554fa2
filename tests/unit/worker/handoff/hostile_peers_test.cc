// Peers that are silent, slow, loud or lie: what they can hold is bounded, and others do not feel
// them. Real sockets and engines.
#include "tests/unit/transport/tcp/bootstrap_rig.h"
#include "tests/unit/worker/handoff/handoff_rig.h"

#include <atomic>
#include <random>
#include <thread>

namespace understudy::worker {
namespace {

using mocker::EngineType;
using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::BootstrapIdentity;
using transport::BootstrapMessage;
using transport::Framed;
using transport::Peer;
using AckKind = transport::BootstrapActionAck::Outcome;

BootstrapMessage AckOf(std::uint64_t id, AckKind kind) {
  return transport::BootstrapActionAck{id, kind, ""};
}
BootstrapMessage RoomFor(const BootstrapIdentity& identity, std::uint64_t tokens) {
  transport::BootstrapFact fact;
  fact.kind = transport::BootstrapFact::Kind::kDestinationReserved;
  fact.handoff_id = identity.handoff_id;
  fact.transferable_prompt_tokens = tokens;
  return fact;
}

/// A destination by hand.
class HandoffPeer {
 public:
  explicit HandoffPeer(std::unique_ptr<Peer> peer) : peer_(std::move(peer)) {}
  Peer* operator->() const { return peer_.get(); }

  /// The next message of the prefill side, as text; the reason when there is none.
  std::string Hear() {
    while (true) {
      const auto body = transport::SplitBootstrapFrame(in_);
      if (body) {
        const auto frame = transport::DecodeBootstrapBody(body->json);
        in_.erase(0, body->frame_bytes);
        return frame ? DebugText(frame->message) : frame.error().message;
      }
      const std::string more = peer_->Read(1);
      if (more.empty()) {
        return "closed";
      }
      in_ += more;
    }
  }

 private:
  std::unique_ptr<Peer> peer_;
  std::string in_;
};

class HostilePeers : public ::testing::Test {
 protected:
  static std::unique_ptr<Peer> Dial(const Prefill& prefill) {
    return Peer::Dial("127.0.0.1:" + std::to_string(prefill.port));
  }
  static HandoffPeer Register(const Prefill& prefill, const BootstrapIdentity& identity) {
    HandoffPeer peer(Dial(prefill));
    peer->Send(transport::Header() + Framed(transport::Registration(), identity));
    return peer;
  }
  /// Until the destination is asked for room.
  static HandoffPeer ToReserve(const Prefill& prefill, const BootstrapIdentity& identity) {
    HandoffPeer peer = Register(prefill, identity);
    EXPECT_EQ(peer.Hear(), "Registered");
    EXPECT_TRUE(peer.Hear().starts_with("Fact(SourceHeld"));
    EXPECT_TRUE(peer.Hear().find("ReserveDestination") != std::string::npos);
    return peer;
  }
  static void ExpectGoodHandoff(Prefill& prefill, Decode& decode, std::uint64_t id) {
    Ending source;
    Ending destination;
    prefill.Request(PairIdentity(id), 60, source);
    decode.Request(prefill.port, PairIdentity(id), 60, 3, destination);
    EXPECT_EQ(destination.Wait(), "");
    EXPECT_EQ(source.Wait(), "");
  }
  template <class Reached>
  static bool WaitUntil(Reached reached) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!reached()) {
      if (std::chrono::steady_clock::now() > limit) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }
  static void ExpectNothingLeft(Prefill& prefill, Decode& decode) {
    EXPECT_TRUE(WaitUntil([&] { return prefill.open() == 0; }));
    EXPECT_EQ(prefill.permits_taken(), 0U);
    ExpectIdle(prefill.rig);
    ExpectIdle(decode.rig);
  }
};

TEST_F(HostilePeers, M144_HalfOpenOnesHoldTheirPlacesButNoMore) {
  PrefillLimits limits;
  limits.pending_max = 4;
  Prefill prefill(EngineType::kVllm, 0.0, limits);
  Decode decode(EngineType::kVllm);
  std::vector<std::unique_ptr<Peer>> half_open;
  for (std::size_t i = 0; i < limits.pending_max; ++i) {
    half_open.push_back(Dial(prefill));
    half_open.back()->Send(transport::Opening().substr(0, i * 20));
  }
  ASSERT_TRUE(WaitUntil([&] { return prefill.listener_counts().accepted_total == 4; }));
  Ending refused;
  decode.Request(prefill.port, PairIdentity(1), 60, 3, refused);
  EXPECT_EQ(refused.Wait(), "unexpected source bootstrap message: Overloaded");
  half_open.clear();
  ASSERT_TRUE(WaitUntil([&] { return prefill.listener_counts().cut_off_total == 4; }));
  ExpectGoodHandoff(prefill, decode, 2);
  ExpectNothingLeft(prefill, decode);
}

TEST_F(HostilePeers, M140_HalfOpenOnesAreClosedInTime) {
  PrefillLimits limits;
  limits.pending_max = 4;
  limits.registration_timeout = milliseconds(50);
  Prefill prefill(EngineType::kVllm, 0.0, limits);
  Decode decode(EngineType::kVllm);
  std::vector<std::unique_ptr<Peer>> half_open;
  for (int i = 0; i < 5; ++i) {  // the last one only to be refused
    half_open.push_back(Dial(prefill));
  }
  for (const auto& peer : half_open) {
    EXPECT_EQ(peer->ReadToEnd(), Peer::End::kFin);
  }
  ExpectGoodHandoff(prefill, decode, 1);
  ExpectNothingLeft(prefill, decode);
}

TEST_F(HostilePeers, M179_SilentOnesHoldASessionUntilItsTimeout) {
  PrefillLimits limits;
  limits.sessions_max = 1;
  limits.session_timeout = milliseconds(200);
  Prefill prefill(EngineType::kVllm, 0.0, limits);
  Decode decode(EngineType::kVllm);
  Ending source;
  prefill.Request(PairIdentity(1), 60, source);
  auto peer = ToReserve(prefill, PairIdentity(1));
  EXPECT_EQ(source.Wait(), "handoff session timed out");
  EXPECT_EQ(peer.Hear(), "Abort { message: \"handoff session timed out\" }");
  EXPECT_EQ(peer->ReadToEnd(), Peer::End::kFin);
  ASSERT_TRUE(WaitUntil([&] { return prefill.open() == 0; }));
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
}

TEST_F(HostilePeers, SlowOnesAreReadAsFastAsTheyWrite) {
  Prefill prefill(EngineType::kVllm);
  Decode decode(EngineType::kVllm);
  Ending source;
  prefill.Request(PairIdentity(1), 60, source);
  HandoffPeer slow(Dial(prefill));
  const std::string opening =
      transport::Header() + Framed(transport::Registration(), PairIdentity(1));
  std::uint64_t id = 2;
  for (std::size_t i = 0; i < opening.size(); ++i) {
    slow->Send(opening.substr(i, 1));
    if (i % 50 == 0) {
      ExpectGoodHandoff(prefill, decode, id++);
    }
  }
  EXPECT_EQ(slow.Hear(), "Registered");
  slow->Reset();
  EXPECT_NE(source.Wait(), "") << "a reset has many names";
  ExpectNothingLeft(prefill, decode);
}

TEST_F(HostilePeers, LoudOnesAreReadInTurnsUntilTheirSessionEnds) {
  PrefillLimits limits;
  limits.session_timeout = seconds(1);
  Prefill prefill(EngineType::kVllm, 0.0, limits);
  Decode decode(EngineType::kVllm);
  Ending source;
  prefill.Request(PairIdentity(1), 60, source);
  const auto loud = ToReserve(prefill, PairIdentity(1));
  std::atomic<std::uint64_t> sent{0};
  std::thread flood([&] {
    std::string many;
    for (int i = 0; i < 300; ++i) {
      many += Framed(AckOf(1, AckKind::kAccepted), PairIdentity(1));
    }
    while (loud->Send(many)) {
      sent += many.size();
    }
  });
  for (std::uint64_t id = 2; id < 12; ++id) {
    ExpectGoodHandoff(prefill, decode, id);
  }
  EXPECT_EQ(source.Wait(), "handoff session timed out");
  flood.join();
  EXPECT_GT(sent, 1U << 20);
  ExpectNothingLeft(prefill, decode);
}

TEST_F(HostilePeers, M137_AFrameWithoutEndIsNotCollected) {
  Prefill prefill(EngineType::kVllm);
  constexpr std::size_t kEndless = 256U << 20;
  const std::string piece(1U << 20, ' ');
  for (const std::string& opening :
       {transport::Header() + std::string("\xFF\xFF\0\0", 4),         // blanks are no JSON
        transport::Header() + std::string("\xFF\xFF\xFF\x7F", 4)}) {  // beyond all limits
    const auto peer = Dial(prefill);
    peer->Send(opening);
    std::size_t sent = 0;
    while (sent < kEndless && peer->Send(piece)) {
      sent += piece.size();
    }
    EXPECT_LT(sent, kEndless);
  }
  EXPECT_EQ(prefill.listener_counts().bad_total, 2U);
}

TEST_F(HostilePeers, RoomBeyondAllPromptsIsALie) {
  Prefill prefill(EngineType::kVllm, 1.0, {}, mocker::TransferTiming::kDestinationMissing);
  Decode decode(EngineType::kVllm);
  Ending source;
  prefill.Request(PairIdentity(1), 60, source);
  auto peer = ToReserve(prefill, PairIdentity(1));
  peer->Send(Framed(AckOf(1, AckKind::kAccepted), PairIdentity(1)) +
             Framed(RoomFor(PairIdentity(1), 1ULL << 60U), PairIdentity(1)));
  const std::string text = "destination reserved 1152921504606846976 tokens for a prompt of 60";
  EXPECT_EQ(peer.Hear(), "Abort { message: \"" + text + "\" }");
  EXPECT_EQ(source.Wait(), text);
  ExpectNothingLeft(prefill, decode);
}

/// One of many peers that do not play by the rules, each with a request of its own that waits.
class Crowd {
 public:
  Crowd(Prefill& prefill, std::uint32_t seed) : prefill_(prefill), random_(seed) {}

  void Join(std::uint64_t id, Ending& source) {
    const BootstrapIdentity identity = PairIdentity(id);
    prefill_.Request(identity, 60, source);
    BootstrapIdentity said = identity;
    if (Chance(20)) {
      said.request_id = {9, 9};
    }
    auto peer = Peer::Dial("127.0.0.1:" + std::to_string(prefill_.port));
    std::string bytes = transport::Header() + Framed(transport::Registration(), said);
    for (auto n = random_() % 5; n > 0; --n) {
      bytes += Anything(said);
    }
    if (Chance(30)) {
      bytes[random_() % bytes.size()] ^= 0x20;
    }
    peer->Send(bytes.substr(0, Chance(70) ? bytes.size() : random_() % bytes.size()));
    if (Chance(20)) {
      peer->Reset();
    } else if (Chance(20)) {
      peer->HalfClose();
    }
    peers_.push_back(std::move(peer));
  }
  void Leave() { peers_.clear(); }

 private:
  bool Chance(std::uint32_t percent) { return random_() % 100 < percent; }
  std::string Anything(const BootstrapIdentity& identity) {
    switch (random_() % 5) {
      case 0:
        return Framed(AckOf(random_() % 6, static_cast<AckKind>(random_() % 6)), identity);
      case 1:
        return Framed(RoomFor(identity, Chance(50) ? 16 : random_()), identity);
      case 2:
        return Framed(transport::BootstrapComplete(), identity);
      case 3:
        return Framed(transport::BootstrapAbort{std::string(random_() % 60000, 'x')}, identity);
      default:
        return Framed(transport::BootstrapRegistered(), PairIdentity(random_() % 7));
    }
  }

  Prefill& prefill_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

class CrowdOfLiars : public HostilePeers, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(CrowdOfLiars, EveryRequestEndsAndTheHonestOnesWell) {
  constexpr std::uint64_t kLiars = 60;
  constexpr std::uint64_t kHonest = 20;
  PrefillLimits limits;
  limits.session_timeout = milliseconds(500);
  limits.registration_timeout = milliseconds(500);
  Prefill prefill(EngineType::kVllm, 0.0, limits);
  Decode decode(EngineType::kVllm);
  Crowd crowd(prefill, GetParam());
  std::vector<Ending> liars(kLiars);
  std::vector<Ending> sources(kHonest);
  std::vector<Ending> destinations(kHonest);
  for (std::uint64_t n = 0; n < kLiars; ++n) {
    crowd.Join(1000 + n, liars[n]);
    if (n % 3 == 0) {
      prefill.Request(PairIdentity(n), 60, sources[n / 3]);
      decode.Request(prefill.port, PairIdentity(n), 60, 3, destinations[n / 3]);
    }
  }
  for (std::uint64_t n = 0; n < kHonest; ++n) {
    EXPECT_EQ(destinations[n].Wait(), "");
    EXPECT_EQ(sources[n].Wait(), "");
  }
  crowd.Leave();
  for (std::uint64_t n = 0; n < kLiars; ++n) {
    prefill.Cancel(PairIdentity(1000 + n));  // those that nobody came for
  }
  for (Ending& liar : liars) {
    EXPECT_NE(liar.Wait(), "");
  }
  ExpectNothingLeft(prefill, decode);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CrowdOfLiars, ::testing::Range(0U, 10U));

}  // namespace
}  // namespace understudy::worker
