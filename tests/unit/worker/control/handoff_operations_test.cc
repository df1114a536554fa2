// Hand-offs driven by controllers, on the simulated engine with its threads.
#include "worker/control/handoff_operations.h"

#include "tests/unit/worker/control/control_rig.h"
#include "understudy/mocker/mocker_engine.h"

#include <future>

namespace understudy::worker {
namespace {

constexpr const char* kHandoff = "6f0c1a9e-3b52-4d0e-9a71-0123456789ab";
const std::string kNamed = std::string("handoff HandoffId(") + kHandoff + ") ";

/// What the request path does for hand-offs: signals at their place between the outputs.
class SignalSink final : public engine::EngineSink {
 public:
  explicit SignalSink(transport::Loop& loop) : loop_(loop) {}
  void OnKvEvents(std::vector<engine::KvEvent>) override {}
  void OnPassBatch(engine::PassBatch batch) override {
    loop_.Post([this, signals = std::move(batch.handoffs)] {
      for (const auto& signal : signals) {
        handoffs->OnSignal(signal);
      }
    });
  }
  engine::Handoffs* handoffs = nullptr;

 private:
  transport::Loop& loop_;
};

std::unique_ptr<engine::Engine> NewEngine(const Clock& clock) {
  mocker::MockerOptions options;
  options.rank_count = 4;
  options.num_gpu_blocks = 64;
  options.block_size = 4;
  options.speedup_ratio = 0;
  return *mocker::NewMockerEngine(options, clock, nullptr);
}

struct RealEngine {  // made before the rig, which serves it
  SteadyClock time;
  std::unique_ptr<engine::Engine> live = NewEngine(time);
  std::unique_ptr<SignalSink> sink_;
  std::unique_ptr<OutputTap> tap_;
  engine::Handoffs* handoffs_ = nullptr;
  std::unique_ptr<LiveHandoffOperations> operations_;
};

class HandoffOperationsTest : protected RealEngine, public ControlRig {
 protected:
  HandoffOperationsTest()
      : ControlRig(
            [this](ControlRig&) {
              sink_ = std::make_unique<SignalSink>(thread_.loop());
              tap_ = std::make_unique<OutputTap>(
                  thread_.loop(), *sink_, [this](const std::vector<ControlOutput>& outputs) {
                    operations_->OnOutputs(outputs);
                  });
              handoffs_ = live->OpenHandoffs(
                  [&loop = thread_.loop()](Task task) { loop.Post(std::move(task)); });
              sink_->handoffs = handoffs_;
              operations_ = std::make_unique<LiveHandoffOperations>(thread_.loop(),
                                                                    *handoffs_,
                                                                    *tap_,
                                                                    *streams_,
                                                                    *metrics_,
                                                                    std::chrono::milliseconds(50));
              EXPECT_TRUE(live->Start(*tap_));
              return operations_.get();
            },
            live.get()) {}
  ~HandoffOperationsTest() override {
    live->Stop();
    thread_.Do([this] {
      streams_->CloseAll();
      operations_.reset();
      tap_.reset();
      live.reset();
    });
  }

  static Json Op(const std::string& op, std::uint64_t generation, Json more = Json::object()) {
    Json body{{"version", 1}, {"op", op}, {"handoff_id", kHandoff}};
    if (generation != 0) {
      body["generation"] = generation;
    }
    body.update(more);
    return body;
  }
  static Json Prompt(std::uint32_t tokens, std::uint32_t outputs) {
    Json ids = Json::array();
    for (std::uint32_t i = 0; i < tokens; ++i) {
      ids.push_back(i);
    }
    return {{"token_ids", ids}, {"max_tokens", outputs}};
  }
  std::string Outcome(const std::string& op, std::uint64_t generation) {
    auto answer = Ask(kControl0, Op(op, generation));
    const Json item = answer.Item();
    if (!item.contains("outcome")) {
      return item.dump();
    }
    answer.ExpectEnd();
    return item["outcome"];
  }
  AnswerReader Register(std::uint64_t generation) {
    auto answer = Ask(kControl0, Op("register_handoff", 0));
    EXPECT_EQ(answer.Item(), (Json{{"type", "registered"}, {"generation", generation}}));
    return answer;
  }
  void Drop(AnswerReader& answer) {
    const auto before = thread_.Do([this] { return streams_->size(); });
    answer.peer().Close();
    Await([&] { return streams_->size() < before; });
  }
  engine::RankStatus Rank0() {
    std::promise<engine::RankStatus> status;
    live->ReadRanks(RankIndex{0}, 1, [&](const auto& all) { status.set_value(all.at(0)); });
    return fakes::Await(status.get_future());
  }
  void AwaitFree() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (Rank0().blocks_used > 0 || Rank0().handoffs > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
  }
};

TEST_F(HandoffOperationsTest, ASourceComputesHoldsAndIsReleased) {
  auto events = Register(1);
  auto prefill = Ask(kControl0, Op("submit_prefill", 1, Prompt(20, 1)), PayloadCodec::kMsgpack);
  EXPECT_EQ(prefill.Item(), (Json{{"type", "outcome"}, {"outcome", "submitted"}}));
  EXPECT_EQ(prefill.Item()["type"], "token");
  EXPECT_EQ(prefill.Item(), (Json{{"type", "finished"}, {"reason", "length"}}));
  prefill.ExpectEnd();
  const Json held = events.Item();
  EXPECT_EQ(held["type"], "source_held");
  EXPECT_EQ(held["transfer_timing"]["full_prompt_tokens"], 20);
  EXPECT_EQ(Rank0().blocks_used, 6U) << "twenty tokens and one more";
  EXPECT_EQ(Ask(kControl0, Json{{"version", 1}, {"op", "stats"}}).Item()["ranks"][0]["handoffs"],
            1);
  EXPECT_EQ(Ask(kControl0, Json{{"version", 1}, {"op", "stats"}}).Item()["ranks"][0]["sessions"],
            1);
  EXPECT_EQ(Outcome("release_source", 1), "applied");
  EXPECT_EQ(Outcome("release_source", 1), "noop");
  EXPECT_EQ(Outcome("cancel_source", 1), "noop");
  AwaitFree();
  EXPECT_EQ(Metric("understudy_control_registrations"), 1.0);
}

TEST_F(HandoffOperationsTest, ADestinationReservesAndRunsWhenActivated) {
  auto events = Register(1);
  auto reserve = Ask(kControl0, Op("reserve_destination", 1, Prompt(20, 3)));
  EXPECT_EQ(reserve.Item(), (Json{{"type", "outcome"}, {"outcome", "accepted"}}));
  EXPECT_EQ(events.Item(),
            (Json{{"type", "destination_reserved"}, {"transferable_prompt_tokens", 20}}));
  EXPECT_EQ(Outcome("activate_destination", 1), "applied");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reserve.Item()["type"], "token");
  }
  EXPECT_EQ(reserve.Item()["type"], "finished");
  reserve.ExpectEnd();
  EXPECT_EQ(
      Ask(kControl0, Op("activate_destination", 1)).Refusal("Unknown"),
      "unexpected scheduler handoff result for HandoffId(" + std::string(kHandoff) + "): Noop");
  EXPECT_EQ(Outcome("cancel_destination", 1), "noop");
  AwaitFree();
}

TEST_F(HandoffOperationsTest, AnIdIsRegisteredOnceAtATimeAndRank) {
  auto events = Register(1);
  EXPECT_EQ(Ask(kControl0, Op("register_handoff", 0)).Refusal("ResourceExhausted"),
            kNamed + "already has a lifecycle route");
  EXPECT_EQ(Ask(kControl0, Op("register_handoff", 0, {{"rank", 1}})).Item()["generation"], 2);
  EXPECT_EQ(Ask(kControl1, Op("register_handoff", 0)).Item()["generation"], 3);
}

TEST_F(HandoffOperationsTest, CommandsOfAnEarlierGenerationAreRefused) {
  auto first = Register(1);
  Drop(first);
  auto second = Register(2);
  for (const char* op :
       {"release_source", "cancel_source", "activate_destination", "cancel_destination"}) {
    EXPECT_EQ(Ask(kControl0, Op(op, 1)).Refusal("Unavailable"),
              kNamed + "control belongs to an earlier registration");
  }
  EXPECT_EQ(Ask(kControl0, Op("submit_prefill", 1, Prompt(4, 1))).Refusal("Unavailable"),
            kNamed + "control belongs to an earlier registration");
  EXPECT_EQ(Metric("understudy_control_refusals_total{reason=\"unservable\"}"), 5.0);
  EXPECT_EQ(Outcome("cancel_source", 2), "noop") << "the replacement is untouched";
}

TEST_F(HandoffOperationsTest, WithoutItsStreamARegistrationStillReleases) {
  auto events = Register(1);
  auto prefill = Ask(kControl0, Op("submit_prefill", 1, Prompt(20, 1)));
  EXPECT_EQ(events.Item()["type"], "source_held");
  Drop(events);
  EXPECT_EQ(Ask(kControl0, Op("reserve_destination", 1, Prompt(4, 1))).Refusal("Unavailable"),
            kNamed + "lifecycle route is no longer registered");
  EXPECT_EQ(Outcome("release_source", 1), "applied");
  AwaitFree();
}

TEST_F(HandoffOperationsTest, WhatADeadControllersSourceHoldsIsFreedAfterAWhile) {
  auto events = Register(1);
  {
    auto prefill = Ask(kControl0, Op("submit_prefill", 1, Prompt(20, 1)));
    EXPECT_EQ(prefill.Item()["outcome"], "submitted");
    EXPECT_EQ(events.Item()["type"], "source_held");
  }
  EXPECT_GT(Rank0().blocks_used, 0U);
  Drop(events);
  AwaitFree();
  Await([this] { return !operations_->RegisteredAt(RankIndex{0}) && streams_->size() == 0; });
  EXPECT_EQ(Ask(kControl0, Op("release_source", 1)).Refusal("Unavailable"),
            kNamed + "control belongs to an earlier registration");
}

TEST_F(HandoffOperationsTest, UnknownHandOffsAreRefused) {
  EXPECT_EQ(Ask(kControl0, Op("cancel_destination", 5)).Refusal("Unavailable"),
            kNamed + "control belongs to an earlier registration");
  EXPECT_EQ(Ask(kControl0, Op("reserve_destination", 5, Prompt(4, 1))).Refusal("Unavailable"),
            kNamed + "lifecycle route is no longer registered");
}

TEST_F(HandoffOperationsTest, RequestsThatCannotBeAreRefused) {
  auto events = Register(1);
  EXPECT_EQ(Ask(kControl0, Op("submit_prefill", 1, Prompt(4, 0))).Refusal("InvalidArgument"),
            "live requests must generate at least one output token");
  EXPECT_EQ(Ask(kControl0, Op("reserve_destination", 1, Prompt(4 * 65, 1))).Refusal("Unknown"),
            "destination prompt exceeds the KV pool capacity");
  Json named = Prompt(8, 1);
  named["request_id"] = "r";
  auto reserve = Ask(kControl0, Op("reserve_destination", 1, named));
  EXPECT_EQ(reserve.Item()["outcome"], "accepted");
  EXPECT_EQ(Ask(kControl0, Op("submit_prefill", 1, named)).Refusal("ResourceExhausted"),
            "request r is already active");
  EXPECT_EQ(Ask(kControl0, Op("reserve_destination", 1, Prompt(4, 1))).Refusal("Unknown"),
            "destination handoff HandoffId(" + std::string(kHandoff) + ") is already active");
}

TEST_F(HandoffOperationsTest, ARequestGoesWithItsStream) {
  auto events = Register(1);
  {
    auto reserve = Ask(kControl0, Op("reserve_destination", 1, Prompt(20, 3)));
    EXPECT_EQ(reserve.Item()["outcome"], "accepted");
    EXPECT_EQ(events.Item()["type"], "destination_reserved");
    EXPECT_EQ(Rank0().blocks_used, 5U);
  }
  AwaitFree();
  auto again = Ask(kControl0, Op("reserve_destination", 1, Prompt(20, 3)));
  EXPECT_EQ(again.Item()["outcome"], "accepted");
}

TEST_F(HandoffOperationsTest, WhenTheEngineEndsSoDoTheStreams) {
  auto events = Register(1);
  auto reserve = Ask(kControl0, Op("reserve_destination", 1, Prompt(20, 3)));
  EXPECT_EQ(reserve.Item()["outcome"], "accepted");
  EXPECT_EQ(events.Item()["type"], "destination_reserved");
  live->Stop();
  EXPECT_EQ(reserve.Refusal("Unavailable"), "the engine ended the request");
  events.ExpectEnd();
  EXPECT_EQ(Ask(kControl0, Op("activate_destination", 1)).Refusal("Unavailable"),
            "live Mocker engine is not running");
  EXPECT_EQ(Ask(kControl0, Op("register_handoff", 0)).Refusal("Unavailable"),
            "live Mocker engine is not running");
}

}  // namespace
}  // namespace understudy::worker
