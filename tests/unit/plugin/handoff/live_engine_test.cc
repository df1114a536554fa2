// Hand-offs through a real engine: rows M-197, M-198, M-200, M-217, M-223 to M-231, M-247, M-250.
#include "tests/unit/plugin/handoff/live_rig.h"

#include <future>
#include <optional>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::HandoffOutcome;

constexpr engine::HandoffId kId{{4, 2}};

class LiveHandoff : public ::testing::TestWithParam<EngineType> {
 protected:
  static MockerOptions Options(WorkerType type) {
    MockerOptions options = RigOptions(type, 100.0);
    options.engine_type = GetParam();
    return options;
  }
  /// One registration with its request, used on the loop.
  struct Hold {
    engine::HandoffRegistration registration;
    engine::PreparedHandoff prepared;
    RequestId request{};
    std::unique_ptr<engine::HandoffCall> call;
  };
  using HoldPtr = std::shared_ptr<Hold>;

  static HoldPtr Register(LiveRig& rig, std::size_t prompt, std::uint32_t outputs) {
    return rig.Do([&] {
      auto hold = std::make_shared<Hold>();
      auto registered = rig.handoffs->Register(kId, RankIndex{0});
      EXPECT_TRUE(registered) << registered.error().message;
      hold->registration = std::move(*registered);
      engine::Request request = rig.MakeRequest(prompt, outputs);
      hold->request = request.id;
      auto prepared = rig.handoffs->Prepare(std::move(request), "client");
      EXPECT_TRUE(prepared) << prepared.error().message;
      hold->prepared = std::move(*prepared);
      return hold;
    });
  }
  template <class Begin>
  static Result<HandoffOutcome> Call(LiveRig& rig, const HoldPtr& hold, Begin begin) {
    return rig.thread.Ask<Result<HandoffOutcome>>([hold, begin](auto done) {
      hold->call = begin(*hold, [done](Result<HandoffOutcome> result) { done(result); });
    });
  }
  static std::optional<engine::HandoffEvent> Next(LiveRig& rig, const HoldPtr& hold) {
    return rig.thread.Ask<std::optional<engine::HandoffEvent>>(
        [hold](auto done) { hold->registration.events->Receive(done); });
  }
  static std::size_t TokensOfWhole(LiveRig& rig, RequestId id) {
    rig.thread.Ask<bool>([&rig, id](auto done) { rig.WhenDone(id, [done] { done(true); }); });
    return rig.Do([&rig, id] { return rig.tokens[id]; });
  }
  /// SGLang counts what is cached as used.
  static void ExpectIdle(LiveRig& rig) {
    if (GetParam() == EngineType::kVllm) {
      EXPECT_EQ(rig.Do([&] { return rig.load.blocks_active; }), 0U);
    }
    EXPECT_NE(rig.engine->DumpState().find("\"handoffs\":0"), std::string::npos);
  }
  static void Drop(LiveRig& rig, HoldPtr& hold) {
    rig.Do([&] {
      hold->call.reset();
      hold.reset();
      return true;
    });
  }
  static auto Submit() {
    return [](Hold& hold, auto done) {
      return hold.registration.control->SubmitPrefill(hold.prepared.request, done);
    };
  }
  static auto Reserve() {
    return [](Hold& hold, auto done) {
      return hold.registration.control->ReserveDestination(hold.prepared.request, done);
    };
  }
  static auto Activate() {
    return
        [](Hold& hold, auto done) { return hold.registration.control->ActivateDestination(done); };
  }
  static auto Release() {
    return [](Hold& hold, auto done) { return hold.registration.control->ReleaseSource(done); };
  }
  static auto CancelDestination() {
    return [](Hold& hold, auto done) { return hold.registration.control->CancelDestination(done); };
  }
};

TEST_P(LiveHandoff, M224_ASourceIsSubmittedHeldAndReleased) {
  LiveRig rig(Options(WorkerType::kPrefill));
  HoldPtr hold = Register(rig, 60, 1);
  EXPECT_EQ(Call(rig, hold, Submit()), HandoffOutcome::kSubmitted);
  const auto event = Next(rig, hold);
  ASSERT_TRUE(event);
  const auto& held = std::get<engine::SourceHeld>(*event);
  EXPECT_EQ(held.timing.full_prompt_tokens, 60U);
  EXPECT_EQ(held.timing.kv_bytes_per_token, 45056U);
  EXPECT_EQ(held.timing.bandwidth_gb_s, 64.0);
  EXPECT_EQ(rig.Do([&] { return rig.tokens[hold->request]; }), 1U) << "the token comes first";
  EXPECT_GT(rig.Do([&] { return rig.load.blocks_active; }), 0U);
  EXPECT_EQ(Call(rig, hold, Release()), HandoffOutcome::kApplied);
  EXPECT_EQ(Call(rig, hold, Release()), HandoffOutcome::kNoop);
  ExpectIdle(rig);
  Drop(rig, hold);
}

TEST_P(LiveHandoff, M197_M198_M225_M226_M227_ADestinationDecodesAfterItsActivation) {
  LiveRig rig(Options(WorkerType::kAggregated));  // a decode worker has no events at all
  HoldPtr hold = Register(rig, 60, 5);
  EXPECT_EQ(Call(rig, hold, Reserve()), HandoffOutcome::kAccepted);
  const auto event = Next(rig, hold);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<engine::DestinationReserved>(*event).transferable_prompt_tokens, 64U)
      << "M-198, as captured: 60 tokens in blocks of 16, nothing cached";
  EXPECT_EQ(rig.Do([&] { return rig.stored_events; }), 0U) << "M-197";
  EXPECT_EQ(Call(rig, hold, Activate()), HandoffOutcome::kApplied);
  EXPECT_GT(rig.Do([&] { return rig.stored_events; }), 0U) << "M-197";
  EXPECT_EQ(TokensOfWhole(rig, hold->request), 5U);
  rig.Do([&] {
    hold->prepared.life->Finished();
    return true;
  });
  const auto again = Call(rig, hold, Activate());
  ASSERT_FALSE(again) << "M-227";
  EXPECT_EQ(again.error().message,
            "unexpected scheduler handoff result for " + DebugText(kId) + ": Noop");
  Drop(rig, hold);
}

TEST_P(LiveHandoff, M198_AWarmDestinationMissesOnlyWhatIsNotCached) {
  LiveRig rig(Options(WorkerType::kAggregated));
  HoldPtr first = Register(rig, 60, 2);
  EXPECT_EQ(Call(rig, first, Reserve()), HandoffOutcome::kAccepted);
  ASSERT_TRUE(Next(rig, first));
  EXPECT_EQ(Call(rig, first, Activate()), HandoffOutcome::kApplied);
  TokensOfWhole(rig, first->request);
  rig.Do([&] {
    first->prepared.life->Finished();
    return true;
  });
  Drop(rig, first);
  HoldPtr second = Register(rig, 60, 2);
  EXPECT_EQ(Call(rig, second, Reserve()), HandoffOutcome::kAccepted);
  const auto event = Next(rig, second);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<engine::DestinationReserved>(*event).transferable_prompt_tokens, 16U);
  EXPECT_EQ(Call(rig, second, CancelDestination()), HandoffOutcome::kApplied);
  ExpectIdle(rig);
  Drop(rig, second);
}

TEST_P(LiveHandoff, M247_DroppingAReservedRequestFreesItsRoom) {
  LiveRig rig(Options(WorkerType::kDecode));
  HoldPtr hold = Register(rig, 60, 5);
  EXPECT_EQ(Call(rig, hold, Reserve()), HandoffOutcome::kAccepted);
  ASSERT_TRUE(Next(rig, hold));
  rig.Do([&] {
    hold->prepared.life.reset();
    return true;
  });
  EXPECT_EQ(Call(rig, hold, CancelDestination()), HandoffOutcome::kNoop)
      << "its turn came after the one of the drop";
  ExpectIdle(rig);
  Drop(rig, hold);
}

TEST_P(LiveHandoff, M200_ABandwidthOfZeroIsNoDelay) {
  MockerOptions options = Options(WorkerType::kPrefill);
  options.kv_transfer_bandwidth = 0.0;
  LiveRig rig(options);
  HoldPtr hold = Register(rig, 60, 1);
  EXPECT_TRUE(Call(rig, hold, Submit()));
  const auto event = Next(rig, hold);
  ASSERT_TRUE(event);
  EXPECT_FALSE(std::get<engine::SourceHeld>(*event).timing.bandwidth_gb_s);
  Drop(rig, hold);
}

TEST_P(LiveHandoff, M250_DroppingTheEngineEndsEventsAndRequestsAndTellsControls) {
  LiveRig rig(Options(WorkerType::kDecode));
  HoldPtr hold = Register(rig, 60, 5);
  EXPECT_EQ(Call(rig, hold, Reserve()), HandoffOutcome::kAccepted);
  ASSERT_TRUE(Next(rig, hold));
  auto closed = std::make_shared<std::promise<void>>();
  rig.Do([&] {
    hold->prepared.life->OnClosed([closed] { closed->set_value(); });
    return true;
  });
  rig.engine->Stop();
  rig.Do([&] {
    rig.engine.reset();
    return true;
  });
  EXPECT_FALSE(Next(rig, hold)) << "the end";
  fakes::Await(closed->get_future());
  const auto after = Call(rig, hold, Release());
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message, "live Mocker engine no longer exists");
  Drop(rig, hold);
  auto made = NewMockerEngine(Options(WorkerType::kDecode), rig.clock);
  ASSERT_TRUE(made);
  rig.engine = std::move(*made);
}

TEST_P(LiveHandoff, RanksAreOfTheirOwn) {
  LiveRig rig(Options(WorkerType::kPrefill));
  rig.Do([&] {
    auto zero = rig.handoffs->Register(kId, RankIndex{0});
    auto one = rig.handoffs->Register(kId, RankIndex{1});
    EXPECT_TRUE(zero && one);
    EXPECT_FALSE(rig.handoffs->Register(kId, RankIndex{1}));
    const auto beyond = rig.handoffs->Register(kId, RankIndex{2});
    EXPECT_EQ(beyond.error().message, "rank 2 is out of bounds for 2 ranks");
    return true;
  });
}

TEST_P(LiveHandoff, M249_ShutdownOfAllRanksIsSharedAndFinal) {
  LiveRig rig(Options(WorkerType::kDecode));
  HoldPtr hold = Register(rig, 60, 5);
  EXPECT_EQ(Call(rig, hold, Reserve()), HandoffOutcome::kAccepted);
  const auto ask = [&rig](auto done) { rig.handoffs->Shutdown([done](Status s) { done(s); }); };
  EXPECT_TRUE(rig.thread.Ask<Status>(ask));
  EXPECT_TRUE(rig.thread.Ask<Status>(ask));
  rig.Do([&] {
    EXPECT_EQ(rig.handoffs->Register(kId, RankIndex{1}).error().message,
              "live Mocker engine is not running");
    return true;
  });
  Drop(rig, hold);
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         LiveHandoff,
                         ::testing::Values(EngineType::kVllm, EngineType::kSglang),
                         [](const auto& type) {
                           return type.param == EngineType::kVllm ? "Vllm" : "Sglang";
                         });

}  // namespace
}  // namespace understudy::mocker
