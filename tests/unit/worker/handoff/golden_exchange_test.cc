// Whole hand-offs between originals, replayed with one of them exchanged for ours: the same bytes
// in the same order, and a transfer that takes as long as it is modelled.
#include "tests/unit/worker/handoff/golden_exchange.h"

#include "tests/unit/transport/codec/golden.h"
#include "tests/unit/worker/handoff/handoff_fakes.h"
#include "worker/handoff/destination_session.h"
#include "worker/handoff/source_manager.h"
#include "worker/handoff/wire.h"

#include <cmath>

namespace understudy::worker {
namespace {

using mocker::EngineType;
using std::chrono::milliseconds;
using transport::BootstrapFact;
using transport::BootstrapMessage;

/// A session of ours at one end; the other end says what was captured.
class ExchangeTest : public SessionTest, public ::testing::WithParamInterface<const char*> {
 protected:
  ExchangeTest() {
    place_.session_timeout = std::chrono::seconds(300);
    script_->handoff = {exchange_.identity.handoff_id};
  }

  [[nodiscard]] std::string BytesOf(const BootstrapMessage& message) const {
    std::string bytes;
    EXPECT_TRUE(transport::AppendBootstrapFrame(bytes, {exchange_.identity, message}));
    return bytes;
  }
  [[nodiscard]] std::unique_ptr<FakeConnection> Connection() {
    return std::make_unique<FakeConnection>(loop_, wire_, exchange_.identity);
  }
  /// The next message of ours is the captured one.
  void ExpectSaid(const golden::Step& step) {
    loop_.RunPosted();
    ASSERT_LT(said_, wire_->sent.size()) << "nothing instead of " << DebugText(step.message);
    EXPECT_EQ(BytesOf(wire_->sent[said_]), step.bytes);
    ++said_;
  }
  void Hear(const golden::Step& step) {
    loop_.RunPosted();
    if (wire_->closed) {
      EXPECT_TRUE(step.end) << DebugText(step.message);
    } else if (step.end) {
      wire_->refusal = Fail(Errc::kUnavailable, "channel closed");
      wire_->End(Status());
    } else {
      wire_->Receive(step.message);
    }
  }
  /// Time goes on to the captured one; sees when something was said meanwhile.
  void AdvanceTo(double t_ms) {
    for (; now_ms_ < t_ms; ++now_ms_) {
      const std::size_t before = wire_->sent.size();
      Pass(milliseconds(1));
      last_said_ms_ = wire_->sent.size() > before ? now_ms_ + 1 : last_said_ms_;
    }
  }
  /// Whatever the engine is asked, it does; `then` says what follows from it.
  void ServeEngine(const std::function<HandoffOutcome(const std::string&)>& outcome) {
    for (; served_ < script_->asked.size(); ++served_) {
      script_->Answer(served_, outcome(script_->asked[served_]->what));
    }
  }
  void ExpectOver() {
    Pass(SourceManager::kSweepInterval);
    EXPECT_EQ(said_, wire_->sent.size()) << wire_->Last();
    EXPECT_TRUE(wire_->closed);
    EXPECT_FALSE(script_->registered);
    EXPECT_EQ(loop_.timers_armed(), 0U);
  }

  const golden::Exchange exchange_ = golden::LoadExchange(GetParam());
  std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::size_t said_ = 0;
  std::size_t served_ = 0;
  double now_ms_ = 0.0;
  double last_said_ms_ = 0.0;
  std::string told_ = "nothing";
};

class SourceExchange : public ExchangeTest {
 protected:
  void Meet() {
    const bool sglang = std::string(GetParam()).starts_with("sglang");
    SourceParticipant source;
    source.identity = exchange_.identity;
    source.engine_type = sglang ? EngineType::kSglang : EngineType::kVllm;
    source.order = *OrderOf(source.engine_type);
    source.handoff = MakeHandoff(script_);
    source.completion = [this](const Status& status) {
      told_ = status ? "" : status.error().message;
    };
    ASSERT_TRUE(manager_.Offer(std::move(source)));
    manager_.OnDestination({exchange_.identity, exchange_.registration, Connection()});
  }
  void Serve() {
    ServeEngine([](const std::string& what) {
      return what == "submit" ? HandoffOutcome::kSubmitted : HandoffOutcome::kApplied;
    });
  }
  /// The original's engine was told a bandwidth of 0 and passed it on.
  void HoldWith(const transport::BootstrapTiming& timing) {
    Serve();
    script_->Happens(engine::SourceHeld{FromWire(timing)});
  }
  void Play(const golden::Step& step) {
    AdvanceTo(step.t_ms);
    Serve();
    const auto* fact = std::get_if<BootstrapFact>(&step.message);
    if (step.from_decode) {
      Hear(step);
    } else if (step.end) {
      loop_.RunPosted();
      EXPECT_TRUE(wire_->closed);
    } else {
      if (fact != nullptr) {
        HoldWith(fact->timing);
      } else if (std::holds_alternative<transport::BootstrapAbort>(step.message)) {
        HoldWith({transport::BootstrapTiming::Mode::kFullPrompt, 60, 45056, 0.0});
      }
      ExpectSaid(step);
    }
    Serve();
    loop_.RunPosted();
  }

  SourceManager manager_{place_, 8};
};

TEST_P(SourceExchange, M134_M175_OursSaysWhatTheOriginalPrefillSaid) {
  Meet();
  for (const golden::Step& step : exchange_.steps) {
    Play(step);
    ASSERT_FALSE(HasFailure());
  }
  ExpectOver();
  EXPECT_EQ(told_, exchange_.prefill_told);
  EXPECT_EQ(manager_.active() + manager_.pending(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         SourceExchange,
                         ::testing::ValuesIn(transport::golden::kHandoffs),
                         [](const auto& file) { return std::string(file.param); });

using Transfer = SourceExchange;

/// The decode worker's settings and the speed-up ratio play no part: only what the prefill worker
/// said of itself does.
TEST_P(Transfer, M161_M199_TakesAsLongAsThePrefillWorkersTimingSays) {
  const auto& held = exchange_.FactOf(BootstrapFact::Kind::kSourceHeld)->timing;
  const auto& reserved = *exchange_.FactOf(BootstrapFact::Kind::kDestinationReserved);
  const std::uint64_t tokens = held.mode == transport::BootstrapTiming::Mode::kFullPrompt
                                   ? held.full_prompt_tokens
                                   : reserved.transferable_prompt_tokens;
  const double delay_ms = static_cast<double>(tokens * *held.kv_bytes_per_token) /
                          (*held.bandwidth_gb_s * 1e9) * 1000.0;
  Meet();
  double ready_ms = 0.0;  // both the prompt and the room are there
  double captured_ready = 0.0;
  for (const golden::Step& step : exchange_.steps) {
    Play(step);
    const auto* fact = std::get_if<BootstrapFact>(&step.message);
    if (fact != nullptr && !step.end) {
      ready_ms = now_ms_;
      captured_ready = step.t_ms;
    }
    const auto* action = std::get_if<transport::BootstrapAction>(&step.message);
    if (action != nullptr &&
        action->kind == transport::BootstrapAction::Kind::kActivateDestination) {
      EXPECT_EQ(action->id, 3U);
      EXPECT_EQ(last_said_ms_, ready_ms + std::ceil(delay_ms));
      EXPECT_GE(step.t_ms - captured_ready, delay_ms) << "so did the original";
      EXPECT_LT(step.t_ms - captured_ready, delay_ms + 3.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files,
                         Transfer,
                         ::testing::Values("vllm_full_prompt_slow",
                                           "vllm_destination_missing_cold",
                                           "vllm_destination_missing_warm",
                                           "sglang_destination_first"),
                         [](const auto& file) { return std::string(file.param); });

class DestinationExchange : public ExchangeTest {
 protected:
  void Begin() {
    session_ = std::make_unique<DestinationSession>(
        place_, MakeHandoff(script_), Connection(), [this](const Status& status) {
          told_ = status ? "" : status.error().message;
          session_.reset();
        });
    session_->Begin();
  }
  void Serve() {
    ServeEngine([](const std::string& what) {
      return what == "reserve" ? HandoffOutcome::kAccepted : HandoffOutcome::kApplied;
    });
  }
  void Play(const golden::Step& step) {
    AdvanceTo(step.t_ms);
    if (!step.from_decode) {
      Hear(step);
      Serve();
      return;
    }
    const auto* fact = std::get_if<BootstrapFact>(&step.message);
    if (step.end) {
      if (!wire_->closed && exchange_.decode_told == "cut off") {
        session_->Cancel();  // "kill" from the frontend
      }
      Serve();
      loop_.RunPosted();
      EXPECT_TRUE(wire_->closed);
      return;
    }
    if (fact != nullptr) {
      script_->Happens(engine::DestinationReserved{fact->transferable_prompt_tokens});
    }
    ExpectSaid(step);
  }

  std::unique_ptr<DestinationSession> session_;
};

TEST_P(DestinationExchange, M132_M134_OursSaysWhatTheOriginalDecodeSaid) {
  const EngineType engine = exchange_.registration.engine == transport::BootstrapEngine::kSglang
                                ? EngineType::kSglang
                                : EngineType::kVllm;
  std::string opening;
  transport::AppendBootstrapHeader(opening);
  opening += BytesOf(transport::BootstrapRegister{0, ToWire(*OrderOf(engine)), ToWire(engine)});
  EXPECT_EQ(opening, exchange_.opening);
  Begin();
  for (const golden::Step& step : exchange_.steps) {
    Play(step);
    ASSERT_FALSE(HasFailure());
  }
  ExpectOver();
  const bool killed = exchange_.decode_told == "cut off";
  EXPECT_EQ(told_, killed ? "destination handoff ended before completion" : exchange_.decode_told);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         DestinationExchange,
                         ::testing::ValuesIn(transport::golden::kHandoffs),
                         [](const auto& file) { return std::string(file.param); });

}  // namespace
}  // namespace understudy::worker
