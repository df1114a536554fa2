// Commands of hand-offs on live ranks: when they are applied, in what order their effects show.
#include "plugin/mocker/live/rank_host.h"
#include "plugin/mocker/perf_model/timing.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "tests/fakes/manual_clock.h"
#include "tests/unit/plugin/rank.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::HandoffOutcome;
using engine::HandoffSignal;
using engine::OutputKind;
using std::chrono::milliseconds;
using Kind = handoff::Command::Kind;

/// Every prefill takes 10 ms and every decode step 4 ms.
class FixedModel final : public PerfModel {
 public:
  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override {
    return batch.requests > 0 ? 10.0 : 0.0;
  }
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override {
    return batch.requests > 0 ? 4.0 : 0.0;
  }
};

/// Everything as words, in the order in which a reader of the batches sees it.
class WordSink final : public engine::EngineSink {
 public:
  void OnKvEvents(std::vector<engine::KvEvent> events) override {
    for (const engine::KvEvent& event : events) {
      words.push_back(event.kind == engine::KvEvent::Kind::kStored ? "stored" : "removed");
    }
  }
  void OnPassBatch(engine::PassBatch batch) override {
    std::size_t output = 0;
    const auto outputs_to = [&](std::size_t end) {
      for (; output < end; ++output) {
        words.push_back("token " + std::to_string(Value(batch.outputs[output].id)));
      }
    };
    for (const HandoffSignal& signal : batch.handoffs) {
      outputs_to(signal.outputs_before);
      words.push_back(Word(signal));
      signals.push_back(signal);
    }
    outputs_to(batch.outputs.size());
    for (const engine::Load& load : batch.loads) {
      words.push_back("load");
      last_load = load;
    }
  }
  static std::string Word(const HandoffSignal& signal) {
    switch (signal.kind) {
      case HandoffSignal::Kind::kSourceHeld:
        return "held " + std::to_string(signal.tokens);
      case HandoffSignal::Kind::kDestinationReserved:
        return "reserved " + std::to_string(signal.tokens);
      case HandoffSignal::Kind::kReply:
        break;
    }
    constexpr const char* kOutcomes[] = {"submitted", "accepted", "applied", "noop"};
    return "answer " + std::to_string(signal.command) + " " +
           (signal.error.empty() ? kOutcomes[static_cast<int>(signal.outcome)] : signal.error);
  }
  /// What was said since the last call.
  std::vector<std::string> Take() { return std::exchange(words, {}); }

  std::vector<std::string> words;
  std::vector<HandoffSignal> signals;
  engine::Load last_load;
};

using Words = std::vector<std::string>;

class RankHandoffs : public ::testing::Test {
 protected:
  RankHandoffs() {
    config_ = SmallRank();
    config_.policy = &policy_;
    config_.perf_model = &model_;
  }

  void Make(WorkerType type, std::uint64_t blocks = 16) {
    config_.worker_type = type;
    config_.blocks_total = blocks;
    host_ = std::make_unique<RankHost>(config_, RankHost::Share{0, 1, 2}, bound_);
    host_->Start(sink_, clock_.Now());
  }

  void Submit(std::uint64_t id, std::size_t prompt, std::uint32_t outputs) {
    ASSERT_TRUE(bound_.Take(RankIndex{0}));
    host_->Apply(MakeRequest(id, static_cast<std::uint32_t>(id * 1000), prompt, outputs));
  }
  /// Command `number`, about the hand-off named by `id`.
  void Do(Kind kind,
          std::uint64_t number,
          std::uint64_t id,
          std::size_t prompt = 8,
          std::uint32_t outputs = 3) {
    auto command = std::make_unique<handoff::Command>();
    command->kind = kind;
    command->number = number;
    command->handoff = {{0, id}};
    if (command->Submits()) {
      ASSERT_TRUE(bound_.Take(RankIndex{0}));
      command->request =
          MakeRequest(100 + number, static_cast<std::uint32_t>(id * 1000), prompt, outputs);
    }
    host_->Apply(std::move(command));
  }
  Words Turn() {
    bool more = true;
    while (more) {
      more = host_->RunDue(clock_.Now());
      if (!more || host_->FlushDue(clock_.Now())) {
        host_->Flush();
      }
    }
    return sink_.Take();
  }
  Words TurnAtDeadline() {
    clock_.Set(*host_->NextDeadline());
    return Turn();
  }
  /// Requests that the bound counts at present.
  std::uint32_t BoundTaken() {
    std::uint32_t free = 0;
    while (bound_.Take(RankIndex{0})) {
      ++free;
    }
    bound_.GiveBack(RankIndex{0}, free);
    return kBound - free;
  }

  static constexpr std::uint32_t kBound = 50;
  ManualClock clock_;
  VllmPolicy policy_;
  FixedModel model_;
  SchedulerConfig config_;
  WaitingBound bound_{2, kBound};
  WordSink sink_;
  std::unique_ptr<RankHost> host_;
};

TEST_F(RankHandoffs, M203_M228_ASourceIsHeldAfterItsTokenAndReleasedOnce) {
  Make(WorkerType::kPrefill);
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  EXPECT_EQ(Turn(), (Words{"stored", "answer 1 submitted", "load"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 101", "held 8", "load"}));
  EXPECT_EQ(sink_.last_load.blocks_active, 3U) << "two of the prompt, one for the token";
  Do(Kind::kReleaseSource, 2, 7);
  EXPECT_EQ(Turn(), (Words{"answer 2 applied", "load"}));
  EXPECT_EQ(sink_.last_load.blocks_active, 0U);
  Do(Kind::kReleaseSource, 3, 7);
  Do(Kind::kCancelSource, 4, 7);
  EXPECT_EQ(Turn(), (Words{"answer 3 noop", "answer 4 noop", "load"}));
  EXPECT_EQ(BoundTaken(), 0U);
}

TEST_F(RankHandoffs, M197_ADestinationPublishesNothingBeforeItIsActivated) {
  Make(WorkerType::kDecode);
  Do(Kind::kReserveDestination, 1, 7, 8, 2);
  EXPECT_EQ(Turn(), (Words{"answer 1 accepted", "reserved 8", "load"}));
  Do(Kind::kActivateDestination, 2, 7);
  EXPECT_EQ(Turn(), (Words{"stored", "answer 2 applied", "load"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 101", "load"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 101", "load"}));
  Do(Kind::kCancelDestination, 3, 7);
  EXPECT_EQ(Turn(), (Words{"answer 3 noop", "load"})) << "it was over: the id is forgotten";
}

TEST_F(RankHandoffs, M204_ACommandShowsEventsThenItsAnswerThenWhatFollowsThenTheLoad) {
  Make(WorkerType::kDecode, 4);
  Do(Kind::kReserveDestination, 1, 7, 8, 1);
  Do(Kind::kReserveDestination, 2, 8, 12, 1);  // no room yet
  EXPECT_EQ(Turn(), (Words{"answer 1 accepted", "reserved 8", "answer 2 accepted", "load"}));
  Do(Kind::kCancelDestination, 3, 7);
  EXPECT_EQ(Turn(), (Words{"answer 3 applied", "reserved 12", "load"}));
}

TEST_F(RankHandoffs, M204_APassShowsOutputsThenParkedCommandsThenTheLoad) {
  Make(WorkerType::kAggregated);
  Do(Kind::kReserveDestination, 1, 7, 8, 2);
  Submit(1, 4, 3);
  EXPECT_EQ(Turn(), (Words{"stored", "answer 1 accepted", "reserved 8", "load"}));
  Do(Kind::kActivateDestination, 2, 7);  // in the pass
  EXPECT_EQ(Turn(), Words{});
  EXPECT_EQ(TurnAtDeadline(), (Words{"stored", "token 1", "answer 2 applied", "load"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 1", "token 101", "load"}));
}

TEST_F(RankHandoffs, M205_OnlySubmissionsAreAppliedInsideAPass) {
  Make(WorkerType::kAggregated);
  Submit(1, 4, 2);
  EXPECT_EQ(Turn(), Words{"stored"});
  clock_.Advance(milliseconds(3));
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  Do(Kind::kReserveDestination, 2, 8, 8, 1);
  EXPECT_EQ(Turn(), (Words{"answer 1 submitted", "answer 2 accepted"}))
      << "at once, without room and without a load";
  Do(Kind::kCancelSource, 3, 9);
  Do(Kind::kReserveDestination, 4, 10, 8, 1);
  EXPECT_EQ(Turn(), Words{}) << "the first other command, and all behind it, wait";
  EXPECT_EQ(TurnAtDeadline(),
            (Words{"stored",  // of the next pass, which starts at once
                   "token 1",
                   "answer 3 noop",
                   "answer 4 accepted",
                   "reserved 8",
                   "reserved 8",
                   "load"}));
}

TEST_F(RankHandoffs, ParkedCommandsAreOfTheirRankAlone) {
  Make(WorkerType::kAggregated);
  Submit(1, 4, 2);
  Turn();
  Do(Kind::kCancelSource, 1, 9);
  auto command = std::make_unique<handoff::Command>();
  command->kind = Kind::kCancelSource;
  command->rank = RankIndex{1};
  command->number = 2;
  host_->Apply(std::move(command));
  EXPECT_EQ(Turn(), (Words{"answer 2 noop", "load"}));
}

TEST_F(RankHandoffs, M257_SubmissionsInsideAPassStartTogetherAtItsEnd) {
  Make(WorkerType::kPrefill);
  Submit(1, 4, 1);
  Turn();
  clock_.Advance(milliseconds(1));
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  clock_.Advance(milliseconds(1));
  Do(Kind::kSubmitPrefill, 2, 8, 8, 1);
  Turn();
  TurnAtDeadline();
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 101", "token 102", "held 8", "held 8", "load"}));
}

TEST_F(RankHandoffs, M257_ASubmissionIsCancelledAfterItWasDecided) {
  Make(WorkerType::kPrefill);
  Submit(1, 4, 1);
  Turn();
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  Do(Kind::kCancelSource, 2, 7);
  EXPECT_EQ(Turn(), (Words{"answer 1 submitted"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 1", "answer 2 applied", "load"}));
  EXPECT_FALSE(host_->NextDeadline().has_value());
  EXPECT_EQ(BoundTaken(), 0U);
}

TEST_F(RankHandoffs, M202_IdsInUseAreRefusedInTheReferencesWords) {
  Make(WorkerType::kAggregated, 4);
  const std::string id = "HandoffId(00000000-0000-0000-0000-000000000007)";
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  Do(Kind::kSubmitPrefill, 2, 7, 8, 1);
  EXPECT_EQ(Turn()[2], "answer 2 handoff " + id + " is already active");
  TurnAtDeadline();
  Do(Kind::kReserveDestination, 3, 7, 8, 1);  // the other end: another matter
  Do(Kind::kReserveDestination, 4, 7, 8, 1);
  EXPECT_EQ(Turn()[2], "answer 4 destination handoff " + id + " is already active");
  Do(Kind::kReserveDestination, 5, 8, 8, 1);
  Do(Kind::kReserveDestination, 6, 8, 8, 1);
  EXPECT_EQ(Turn()[1],
            "answer 6 destination handoff HandoffId(00000000-0000-0000-0000-000000000008) is "
            "already pending");
  EXPECT_EQ(BoundTaken(), 2U) << "the refused ones are not counted";
}

TEST_F(RankHandoffs, M203_AnIdCanBeUsedAgainAfterItWasReleased) {
  Make(WorkerType::kPrefill);
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  Turn();
  TurnAtDeadline();
  Do(Kind::kReleaseSource, 2, 7);
  Do(Kind::kSubmitPrefill, 3, 7, 8, 1);
  EXPECT_EQ(Turn(),
            (Words{"answer 2 applied", "answer 3 submitted", "token 103", "held 8", "load"}))
      << "at once: the prompt is cached";
}

TEST_F(RankHandoffs, M203_ASourceThatIsReleasedTooEarlyRunsOnAsAnOrdinaryRequest) {
  Make(WorkerType::kPrefill);
  Do(Kind::kSubmitPrefill, 1, 7, 8, 1);
  Do(Kind::kReleaseSource, 2, 7);
  Do(Kind::kSubmitPrefill, 3, 7, 8, 1);
  EXPECT_EQ(
      Turn(),
      (Words{"stored", "answer 1 submitted", "answer 2 applied", "answer 3 submitted", "load"}));
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 101", "token 103", "held 8", "load"}));
  EXPECT_EQ(sink_.last_load.blocks_active, 3U) << "only the second one's";
}

TEST_F(RankHandoffs, M196_APromptBeyondThePoolIsRefused) {
  Make(WorkerType::kDecode);
  Do(Kind::kReserveDestination, 1, 7, 65, 1);
  EXPECT_EQ(Turn(), (Words{"answer 1 destination prompt exceeds the KV pool capacity", "load"}));
  Do(Kind::kCancelDestination, 2, 7);
  EXPECT_EQ(Turn()[0], "answer 2 noop");
  EXPECT_EQ(BoundTaken(), 0U);
}

TEST_F(RankHandoffs, M201_ReservationsAreFirstComeFirstServed) {
  Make(WorkerType::kAggregated, 6);
  Submit(1, 12, 5);
  Turn();
  Do(Kind::kReserveDestination, 1, 7, 16, 1);
  Do(Kind::kReserveDestination, 2, 8, 4, 1);  // would fit, but is not the first
  Turn();
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 1", "load"}));
  Do(Kind::kCancelDestination, 3, 7);
  Turn();
  EXPECT_EQ(TurnAtDeadline(), (Words{"token 1", "answer 3 applied", "reserved 4", "load"}));
}

TEST_F(RankHandoffs, M202_ReservationsCancelledInTheMiddleOfTheLineLeaveNothing) {
  constexpr std::uint64_t kMany = 40;
  Make(WorkerType::kDecode, 4);
  for (std::uint64_t id = 1; id <= kMany; ++id) {  // each needs the whole pool
    Do(Kind::kReserveDestination, id, id, 16, 1);
  }
  Turn();
  for (std::uint64_t id = 2; id <= kMany; ++id) {
    if (id % 4 != 0) {
      Do(Kind::kCancelDestination, 100 + id, id);
    }
  }
  for (const std::string& word : Turn()) {
    EXPECT_TRUE(word.ends_with(" applied") || word == "load") << word;
  }
  EXPECT_EQ(BoundTaken(), kMany / 4 + 1) << "the first, and every fourth";
  for (std::uint64_t id = 4; id <= kMany; id += 4) {
    Do(Kind::kCancelDestination, 200 + id, id == 4 ? 1 : id - 4);
    const Words words = Turn();
    ASSERT_EQ(words.size(), 3U);
    EXPECT_EQ(words[1], "reserved 16");
    Do(Kind::kReserveDestination, 300 + id, id, 16, 1);
    EXPECT_EQ(Turn()[0],
              "answer " + std::to_string(300 + id) + " destination handoff " +
                  DebugText(engine::HandoffId{{0, id}}) + " is already active")
        << "it is the one that has room now";
  }
}

TEST_F(RankHandoffs, RoomThatAnOrdinaryCancellationFreesIsGivenToTheFirstInLine) {
  Make(WorkerType::kDecode, 4);
  Do(Kind::kReserveDestination, 1, 7, 16, 1);
  Do(Kind::kReserveDestination, 2, 8, 16, 1);
  Turn();
  host_->Apply(CancelCommand{RequestId{101}, RankIndex{0}});
  EXPECT_EQ(Turn(), (Words{"reserved 16", "load"}));
  Do(Kind::kActivateDestination, 3, 7);
  EXPECT_EQ(Turn()[0], "answer 3 noop");
}

TEST_F(RankHandoffs, CommandsBeyondTheBoundOfAPassAreRefused) {
  Make(WorkerType::kAggregated);
  Submit(1, 4, 2);
  Turn();
  for (std::size_t i = 0; i < kParkedCommandsMax; ++i) {
    Do(Kind::kCancelSource, i, 9);
  }
  EXPECT_EQ(Turn(), Words{});
  Do(Kind::kCancelSource, 99, 9);
  EXPECT_EQ(Turn(), (Words{"answer 99 too many commands wait for the pass to end"}));
  EXPECT_EQ(TurnAtDeadline().size(), kParkedCommandsMax + 2);
}

}  // namespace
}  // namespace understudy::mocker
