// Properties P1 to P12 of live hand-off control (row M-258): many threads ask in random order while
// a rank on a thread of its own answers late. A failure names the seed to run again. Built with the
// thread sanitizer this also proves the crossings.
#include "plugin/mocker/handoff/live_boundary.h"
#include "tests/fakes/loop_thread.h"
#include "tests/unit/plugin/handoff/live_rig.h"
#include "understudy/base/mailbox.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker {
namespace {

using engine::HandoffId;
using engine::HandoffOutcome;
using engine::HandoffSignal;
using handoff::Command;
using handoff::LiveBoundary;

/// Answers commands in the order in which they came, but only some at a time, on its own thread.
class ThreadedRank final : public handoff::CommandPort {
 public:
  ThreadedRank(std::uint32_t seed, std::function<void(HandoffSignal)> answer)
      : random_(seed), answer_(std::move(answer)), thread_([this] { Run(); }) {}
  ~ThreadedRank() override { Stop(); }

  [[nodiscard]] bool Running() const override { return running_.load(); }
  [[nodiscard]] Status Send(Command command) override {
    ++sent;
    // P2: the one before has been answered.
    EXPECT_TRUE(under_way.insert(command.handoff).second) << "two commands of one hand-off";
    submitting.erase(command.handoff);
    if (command.Submits()) {
      submitting.insert(command.handoff);
    }
    return commands_.Push(std::move(command)) ? Status() : Fail(Errc::kUnavailable, "stopped");
  }
  void CancelRequest(RequestId, RankIndex) override { ++cancelled; }
  void Stop() {
    running_.store(false);
    commands_.Close();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  // on the loop
  std::uint64_t sent = 0;
  std::uint64_t cancelled = 0;
  std::set<HandoffId> under_way;
  std::set<HandoffId> submitting;

 private:
  void Run() {
    std::vector<Command> taken;
    bool open = true;
    while (open) {
      open = commands_.Drain(taken, std::nullopt);
      for (Command& command : taken) {
        Answer(command);
      }
      taken.clear();
    }
  }
  void Answer(const Command& command) {
    HandoffSignal signal;
    signal.handoff = command.handoff;
    signal.command = command.number;
    const auto chance = [this](std::uint32_t percent) { return random_() % 100 < percent; };
    if (command.Submits() && chance(20)) {
      signal.error = "no room";
    } else if (command.kind == Command::Kind::kSubmitPrefill) {
      signal.outcome = HandoffOutcome::kSubmitted;
    } else if (command.kind == Command::Kind::kReserveDestination) {
      signal.outcome = HandoffOutcome::kAccepted;
    } else {
      signal.outcome = chance(50) ? HandoffOutcome::kApplied : HandoffOutcome::kNoop;
    }
    const bool went_well = command.Submits() && signal.error.empty();
    answer_(signal);
    if (went_well) {
      HandoffSignal event;
      event.kind = command.kind == Command::Kind::kSubmitPrefill
                       ? HandoffSignal::Kind::kSourceHeld
                       : HandoffSignal::Kind::kDestinationReserved;
      event.handoff = command.handoff;
      event.tokens = 1;
      for (std::uint32_t n = random_() % 4; n > 0; --n) {
        answer_(event);
      }
    }
  }

  std::mt19937 random_;
  std::function<void(HandoffSignal)> answer_;
  std::atomic<bool> running_{true};
  Mailbox<Command> commands_{65536, 0};
  std::thread thread_;
};

/// One hand-off attempt with all that its owner holds.
struct Attempt {
  HandoffId id;
  std::uint64_t generation = 0;
  std::shared_ptr<engine::HandoffControl> control;
  std::unique_ptr<engine::HandoffEvents> events;
  std::vector<std::unique_ptr<engine::LiveRequest>> lives;
  std::vector<std::unique_ptr<engine::HandoffCall>> calls;
  bool receiving = false;
};

/// All on the loop's thread.
class Chaos {
 public:
  Chaos(fakes::LoopThread& thread, std::uint32_t seed)
      : thread_(thread), rank_(seed + 1000, [this](HandoffSignal signal) { Heard(signal); }) {
    boundary_ = std::make_unique<LiveBoundary>(
        RankIndex{0}, engine::TransferTiming{}, rank_, [this](Task task) {
          thread_.loop().Post(std::move(task));
        });
  }

  void Step(std::uint32_t number) {
    const std::uint32_t kind = number % 16;
    const HandoffId id{{0, 1 + number / 16 % 3}};
    std::vector<Attempt*> of_id;
    for (const auto& attempt : attempts_) {
      if (attempt->id == id) {
        of_id.push_back(attempt.get());
      }
    }
    if (kind < 4 || of_id.empty()) {
      Register(id);
      return;
    }
    Use(*of_id[number / 64 % of_id.size()], kind);
    std::erase_if(attempts_, [](const auto& attempt) {
      return !attempt->control && !attempt->events && attempt->lives.empty() &&
             attempt->calls.empty();
    });
    const handoff::BoundarySizes sizes = boundary_->sizes();
    EXPECT_LE(sizes.registered, 3U) << "P1";
    EXPECT_LE(sizes.remembered, 3U) << "P9";
  }

  void Break() {
    HandoffSignal lie;
    lie.command = 1'000'000'000;
    boundary_->OnSignal(lie);
    EXPECT_FALSE(boundary_->Register({{0, 1}})) << "P12";
    EXPECT_EQ(boundary_->sizes().registered, 0U) << "P12";
    EXPECT_EQ(boundary_->sizes().requests, 0U) << "P12";
  }

  void DropAll() {
    attempts_.clear();
    EXPECT_EQ(boundary_->sizes().registered, 0U);
  }
  void Shutdown(std::function<void(Status)> done) { boundary_->Shutdown(std::move(done)); }
  void StopRank() { rank_.Stop(); }
  void LaneClosed() { boundary_->LaneClosed(true); }
  [[nodiscard]] handoff::BoundarySizes sizes() const { return boundary_->sizes(); }

 private:
  void Heard(const HandoffSignal& signal) {
    thread_.loop().Post([this, signal] {
      if (signal.kind == HandoffSignal::Kind::kReply) {
        rank_.under_way.erase(signal.handoff);
        rank_.submitting.erase(signal.handoff);
      }
      boundary_->OnSignal(signal);
    });
  }

  void Register(HandoffId id) {
    auto registered = boundary_->Register(id);
    const bool taken = registered_[id] != nullptr;
    if (!registered) {
      const std::string text = registered.error().message;
      EXPECT_TRUE(text.ends_with("already has a lifecycle route") ||
                  text.ends_with("still has a scheduler command in progress") ||
                  text == "live Mocker engine is not running")
          << text;
      return;
    }
    EXPECT_FALSE(taken) << "P1";
    EXPECT_FALSE(rank_.submitting.contains(id)) << "P3";
    auto attempt = std::make_unique<Attempt>();
    attempt->id = id;
    attempt->generation = ++generations_[id];
    attempt->control = std::move(registered->control);
    attempt->events = std::move(registered->events);
    registered_[id] = attempt.get();
    attempts_.push_back(std::move(attempt));
  }

  /// A command, a drop or a receive. A stale attempt must not reach the rank: P4, P5.
  void Use(Attempt& attempt, std::uint32_t kind) {
    const bool stale = attempt.generation != generations_[attempt.id];
    const std::uint64_t sent_before = rank_.sent;
    const std::uint64_t cancelled_before = rank_.cancelled;
    if (kind < 10) {
      Order(attempt, kind);
    } else if (kind == 10 && !attempt.lives.empty()) {
      attempt.lives.pop_back();
      EXPECT_TRUE(!stale || rank_.sent == sent_before || cancelled_before < rank_.cancelled)
          << "P5";
    } else if (kind == 11 && !attempt.lives.empty()) {
      attempt.lives.back()->Cancel([](const auto&) {});
    } else if (kind == 12) {
      Receive(attempt);
    } else if (kind == 13) {
      DropEvents(attempt);
    } else if (kind == 14 && attempt.control.use_count() == 1 && !attempt.events) {
      attempt.control.reset();
    } else {
      DropCalls(attempt);
    }
    if (stale) {
      EXPECT_EQ(rank_.sent, sent_before) << "P4, P5";
    }
  }

  void Order(Attempt& attempt, std::uint32_t kind) {
    if (!attempt.control) {
      return;
    }
    const auto done = [](const Result<HandoffOutcome>&) {};
    engine::HandoffControl& control = *attempt.control;
    switch (kind) {
      case 4:
      case 5: {
        engine::Request request;
        request.id = RequestId{++last_request_};
        request.prompt = {1, 2, 3};
        request.output_tokens_max = 1;
        auto prepared =
            boundary_->Prepare(std::move(request), "client " + std::to_string(last_request_));
        if (!prepared) {
          return;
        }
        attempt.lives.push_back(std::move(prepared->life));
        attempt.calls.push_back(
            kind == 4 ? control.SubmitPrefill(std::move(prepared->request), done)
                      : control.ReserveDestination(std::move(prepared->request), done));
        return;
      }
      case 6:
        Keep(control.ReleaseSource(done));
        return;
      case 7:
        Keep(control.CancelSource(done));
        return;
      case 8:
        Keep(control.ActivateDestination(done));
        return;
      default:
        Keep(control.CancelDestination(done));
    }
  }
  /// Until the end: their turn would be free too early for P2.
  void Keep(std::unique_ptr<engine::HandoffCall> call) { kept_.push_back(std::move(call)); }

  static void DropCalls(Attempt& attempt) { attempt.calls.clear(); }
  void DropEvents(Attempt& attempt) {
    if (attempt.events) {
      attempt.events.reset();
      attempt.receiving = false;
      if (registered_[attempt.id] == &attempt) {
        registered_[attempt.id] = nullptr;
      }
    }
  }
  void Receive(Attempt& attempt) {
    if (attempt.events && !attempt.receiving) {
      attempt.receiving = true;
      attempt.events->Receive([this, &attempt](const auto& event) {
        attempt.receiving = false;
        if (event) {
          EXPECT_EQ(registered_[attempt.id], &attempt) << "P6";
        }
      });
    }
  }

  fakes::LoopThread& thread_;
  std::map<HandoffId, Attempt*> registered_;
  std::map<HandoffId, std::uint64_t> generations_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::vector<std::unique_ptr<engine::HandoffCall>> kept_;
  std::uint64_t last_request_ = 0;
  std::unique_ptr<LiveBoundary> boundary_;
  ThreadedRank rank_;
};

/// One interleaving on a loop of its own.
void RunChaos(std::uint32_t seed, int steps) {
  constexpr int kActors = 3;
  fakes::LoopThread thread;
  auto chaos = thread.Do([&] { return std::make_unique<Chaos>(thread, seed); });
  std::vector<std::thread> actors;
  for (int actor = 0; actor < kActors; ++actor) {
    actors.emplace_back([&, actor] {
      std::mt19937 random(seed * 7 + static_cast<std::uint32_t>(actor));
      for (int step = 0; step < steps; ++step) {
        const auto number = static_cast<std::uint32_t>(random());
        if (random() % 16 == 0) {  // now and then in step with the loop
          thread.Do([&, number] {
            chaos->Step(number);
            return true;
          });
        } else {
          thread.loop().Post([&chaos, number] { chaos->Step(number); });
        }
      }
    });
  }
  for (std::thread& actor : actors) {
    actor.join();
  }
  const bool breaks = seed % 4 == 3;
  const bool drops = seed % 2 == 0;
  std::vector<std::future<Status>> results;
  for (int caller = 0; caller < 2; ++caller) {  // P8, with commands under way
    auto promise = std::make_shared<std::promise<Status>>();
    results.push_back(promise->get_future());
    thread.loop().Post([&, promise, caller] {
      if (caller == 0 && breaks) {
        chaos->Break();
      }
      if (caller == 0 && drops) {
        chaos->DropAll();
      }
      chaos->Shutdown([promise](Status status) { promise->set_value(std::move(status)); });
    });
  }
  for (std::future<Status>& result : results) {
    EXPECT_EQ(fakes::Await(std::move(result)).has_value(), !breaks);
  }
  thread.Do([&] {
    chaos->DropAll();
    const handoff::BoundarySizes sizes = chaos->sizes();
    EXPECT_EQ(sizes.registered + sizes.requests + sizes.commands + sizes.events_waiting, 0U);
    return true;
  });
  chaos->StopRank();
  thread.Do([&] {
    chaos.reset();
    return true;
  });
}

TEST(BoundaryStress, M258_AnyInterleavingKeepsTheProperties) {
  constexpr std::uint32_t kRuns = 2000;
  constexpr int kSteps = 40;
  for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
    RunChaos(seed, kSteps);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(BoundaryStress, M258_LongInterleavingsKeepTheProperties) {
  constexpr std::uint32_t kRuns = 40;
  constexpr int kSteps = 400;
  for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
    RunChaos(seed, kSteps);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(BoundaryThreads, P1_OfManyThreadsThatRegisterOneIdOneSucceeds) {
  LiveRig rig(RigOptions(WorkerType::kPrefill, 100.0));
  constexpr int kThreads = 8;
  std::vector<engine::HandoffRegistration> won;  // on the loop
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      rig.Do([&] {
        auto registered = rig.handoffs->Register({{1, 1}}, RankIndex{0});
        if (registered) {
          won.push_back(std::move(*registered));
        } else {
          EXPECT_TRUE(registered.error().message.ends_with("already has a lifecycle route"));
          ++refused;
        }
        return true;
      });
    });
  }
  for (std::thread& one : threads) {
    one.join();
  }
  rig.Do([&] {
    EXPECT_EQ(won.size(), 1U);
    won.clear();
    return true;
  });
  EXPECT_EQ(refused, kThreads - 1);
}

/// One end of a hand-off from its registration to its end; `choice` decides what becomes of it.
class Flow {
 public:
  Flow(LiveRig& rig, std::uint32_t choice, std::uint64_t number, std::function<void()> end)
      : choice_(choice), end_(std::move(end)) {
    const RankIndex rank{choice % 2};
    registration_ = *rig.handoffs->Register({{2, number}}, rank);
    auto prepared = *rig.handoffs->Prepare(rig.MakeRequest(16 + choice / 2 % 100, 3, choice % 2),
                                           "client " + std::to_string(number));
    life_ = std::move(prepared.life);
    registration_.events->Receive([this](const auto& event) {
      if (event) {
        OnEvent();
      }
    });
    const auto submitted = [this](const Result<HandoffOutcome>& result) { OnSubmitted(result); };
    call_ = IsSource() ? control().SubmitPrefill(std::move(prepared.request), submitted)
                       : control().ReserveDestination(std::move(prepared.request), submitted);
  }

 private:
  [[nodiscard]] bool IsSource() const { return choice_ / 4 % 2 == 0; }
  [[nodiscard]] engine::HandoffControl& control() { return *registration_.control; }
  auto Finish() {
    return [this](const Result<HandoffOutcome>&) {
      registration_.events.reset();
      life_.reset();
      end_();
    };
  }

  void OnEvent() {
    if (IsSource()) {
      call_ = control().ReleaseSource(Finish());
    } else if (choice_ / 32 % 2 == 0) {
      call_ = control().ActivateDestination(Finish());
    } else {
      call_ = control().CancelDestination(Finish());
    }
  }

  void OnSubmitted(const Result<HandoffOutcome>& result) {
    EXPECT_TRUE(result) << result.error().message;
    if (choice_ / 8 % 4 == 0) {  // abandoned
      registration_.events.reset();
      call_ = IsSource() ? control().CancelSource(Finish()) : control().CancelDestination(Finish());
    }
  }

  const std::uint32_t choice_;
  const std::function<void()> end_;
  engine::HandoffRegistration registration_;
  std::unique_ptr<engine::LiveRequest> life_;
  std::unique_ptr<engine::HandoffCall> call_;
};

class EngineStress : public ::testing::TestWithParam<std::uint32_t> {};

/// Whole hand-offs between two real engines, some of them abandoned; nothing is left behind.
TEST_P(EngineStress, EveryHandoffEndsAndNoBlockStaysInUse) {
  MockerOptions options = RigOptions(WorkerType::kAggregated, 1000.0);
  options.engine_type = GetParam() % 2 == 0 ? EngineType::kVllm : EngineType::kSglang;
  LiveRig rig(options);
  constexpr std::uint64_t kHandoffs = 60;
  std::vector<std::unique_ptr<Flow>> flows;  // on the loop
  std::atomic<std::uint64_t> over{0};
  std::promise<void> all_over;
  const auto end = [&] {
    if (++over == kHandoffs) {
      all_over.set_value();
    }
  };
  std::mt19937 random(GetParam());
  for (std::uint64_t n = 0; n < kHandoffs; ++n) {
    const auto choice = static_cast<std::uint32_t>(random());
    rig.thread.loop().Post(
        [&, n, choice] { flows.push_back(std::make_unique<Flow>(rig, choice, n, end)); });
  }
  fakes::Await(all_over.get_future());
  const auto ask = [&](auto done) {
    rig.handoffs->Shutdown([done](Status status) { done(std::move(status)); });
  };
  EXPECT_TRUE(rig.thread.Ask<Status>(ask));
  rig.Do([&] {
    flows.clear();
    return true;
  });
  // The cancellations of the dropped requests are in the mailbox before this question.
  const std::string dump = rig.engine->DumpState();
  EXPECT_NE(dump.find("\"handoffs\":0"), std::string::npos) << dump;
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineStress, ::testing::Range(0U, 8U));

TEST(BoundaryThreads, P7_StoppingTheEngineEndsEverythingWithCommandsUnderWay) {
  for (int round = 0; round < 10; ++round) {
    LiveRig rig(RigOptions(WorkerType::kDecode, 1.0));
    std::vector<engine::HandoffRegistration> registrations;
    std::vector<std::unique_ptr<engine::LiveRequest>> lives;
    std::vector<std::unique_ptr<engine::HandoffCall>> calls;
    std::atomic<int> answered{0};
    std::atomic<int> ended{0};
    std::promise<void> all;
    constexpr int kMany = 20;
    const auto count = [&](std::atomic<int>& what) {
      ++what;
      if (answered + ended == 2 * kMany) {
        all.set_value();
      }
    };
    rig.Do([&] {
      for (std::uint64_t n = 0; n < kMany; ++n) {
        registrations.push_back(*rig.handoffs->Register({{3, n}}, RankIndex{n % 2 == 0 ? 0U : 1U}));
        auto prepared = *rig.handoffs->Prepare(rig.MakeRequest(64, 50, n % 2 == 0 ? 0U : 1U),
                                               std::to_string(n));
        lives.push_back(std::move(prepared.life));
        lives.back()->OnClosed([&count, &ended] { count(ended); });
        calls.push_back(registrations.back().control->ReserveDestination(
            std::move(prepared.request), [&count, &answered](const auto&) { count(answered); }));
      }
      return true;
    });
    rig.engine->Stop();
    fakes::Await(all.get_future());
    rig.Do([&] {
      calls.clear();
      lives.clear();
      registrations.clear();
      return true;
    });
  }
}

}  // namespace
}  // namespace understudy::mocker
