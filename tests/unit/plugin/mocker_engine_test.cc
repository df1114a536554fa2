// The engine with its real threads, watched through a sink. Nothing sleeps: tests wait for what
// they expect.
#include "understudy/mocker/mocker_engine.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::mocker {
namespace {

using engine::Output;
using engine::OutputKind;

/// Far beyond what a loaded machine needs; only a defect gets there.
constexpr std::chrono::seconds kPatience(60);

/// Keeps everything, lets tests wait for a state of it.
class RecordingSink final : public engine::EngineSink {
 public:
  void OnKvEvents(std::vector<engine::KvEvent> events) override {
    const std::lock_guard lock(mutex_);
    for (auto& event : events) {
      events_.push_back(std::move(event));
    }
    changed_.notify_all();
  }

  void OnPassBatch(engine::PassBatch batch) override {
    const std::lock_guard lock(mutex_);
    ++batches_;
    for (const engine::Admission& admission : batch.admissions) {
      admitted_.insert(admission.id);
    }
    for (const Output& output : batch.outputs) {
      early_ = early_ || (output.kind == OutputKind::kToken && !admitted_.contains(output.id));
      outputs_[output.id].push_back(output);
      ended_ += output.kind == OutputKind::kToken ? 0U : 1U;
    }
    for (const engine::Failure& failure : batch.failures) {
      failures_[failure.id] = failure.message;
    }
    for (const engine::Load& load : batch.loads) {
      loads_[load.rank] = load;
    }
    if (keep_credits_) {
      credits_.push_back(std::move(batch.credit));
    }
    changed_.notify_all();
  }

  /// Waits until `reached(*this)`; false when that never happens.
  template <class Reached>
  [[nodiscard]] bool WaitFor(Reached reached) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return reached(*this); });
  }
  [[nodiscard]] bool WaitForEnds(std::size_t count) {
    return WaitFor([count](const RecordingSink& sink) { return sink.ended_ >= count; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, std::vector<Output>> outputs_;
  std::map<RequestId, std::string> failures_;
  std::map<RankIndex, engine::Load> loads_;
  std::set<RequestId> admitted_;
  std::vector<engine::KvEvent> events_;
  std::vector<std::shared_ptr<const void>> credits_;
  std::size_t ended_ = 0;
  std::size_t batches_ = 0;
  bool early_ = false;         ///< an output came before its admission
  bool keep_credits_ = false;  ///< pretends to be a reader who never gets done
};

engine::Request MakeRequest(std::uint64_t id,
                            std::uint32_t rank,
                            std::size_t prompt,
                            std::uint32_t outputs) {
  engine::Request request;
  request.id = RequestId{id};
  request.rank = RankIndex{rank};
  for (std::size_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<std::uint32_t>(id * 1000 + i));
  }
  request.output_tokens_max = outputs;
  return request;
}

MockerOptions FreeRunning(std::uint32_t ranks) {
  MockerOptions options;
  options.rank_count = ranks;
  options.block_size = 16;
  options.speedup_ratio = 0.0;
  options.thread_count = 2;
  return options;
}

class MockerEngineTest : public ::testing::Test {
 protected:
  engine::Engine& Make(const MockerOptions& options) {
    auto made = NewMockerEngine(options, clock_);
    EXPECT_TRUE(made.has_value());
    engine_ = std::move(*made);
    return *engine_;
  }
  engine::Engine& Started(const MockerOptions& options) {
    Make(options);
    EXPECT_TRUE(engine_->Start(sink_).has_value());
    return *engine_;
  }

  SteadyClock clock_;
  RecordingSink sink_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(MockerEngineTest, DeliversEveryTokenOnceAndInOrderOverManyRanks) {
  constexpr std::uint64_t kRequests = 256;
  constexpr std::uint32_t kTokens = 50;
  engine::Engine& engine = Started(FreeRunning(64));
  for (std::uint64_t id = 0; id < kRequests; ++id) {
    engine::Request request =
        MakeRequest(id, static_cast<std::uint32_t>(id % 64), 20 + id, kTokens);
    for (std::uint32_t i = 0; i < kTokens; ++i) {
      request.planned_tokens.push_back(static_cast<std::uint32_t>(id) * 100 + i);
    }
    ASSERT_TRUE(engine.Submit(std::move(request)).has_value());
  }
  ASSERT_TRUE(sink_.WaitForEnds(kRequests));
  engine.Stop();
  EXPECT_FALSE(sink_.early_);
  EXPECT_EQ(sink_.outputs_.size(), kRequests);
  for (const auto& [id, outputs] : sink_.outputs_) {
    ASSERT_EQ(outputs.size(), kTokens);
    for (std::uint32_t i = 0; i < kTokens; ++i) {
      EXPECT_EQ(outputs[i].token, Value(id) * 100 + i);
      EXPECT_EQ(outputs[i].kind, i + 1 == kTokens ? OutputKind::kLastToken : OutputKind::kToken);
    }
  }
  for (const auto& [rank, load] : sink_.loads_) {
    EXPECT_EQ(load.blocks_active, 0U);
    EXPECT_EQ(load.requests_running + load.requests_waiting, 0U);
  }
}

TEST_F(MockerEngineTest, GathersSeveralPassesInABatchWhenFreeRunning) {
  engine::Engine& engine = Started(FreeRunning(1));
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 16, 20000)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(1));
  engine.Stop();
  EXPECT_EQ(sink_.outputs_[RequestId{1}].size(), 20000U);
  EXPECT_LT(sink_.batches_, 10000U);
}

TEST_F(MockerEngineTest, DrawnTokensRepeatWithTheSeedAndStayInTheVisibleRange) {
  const auto run = [this](std::uint64_t seed) {
    RecordingSink sink;
    MockerOptions options = FreeRunning(2);
    options.seed = seed;
    auto engine = NewMockerEngine(options, clock_);
    EXPECT_TRUE((*engine)->Start(sink).has_value());
    for (std::uint64_t id = 0; id < 8; ++id) {
      EXPECT_TRUE((*engine)->Submit(MakeRequest(id, id % 2, 30, 40)).has_value());
    }
    EXPECT_TRUE(sink.WaitForEnds(8));
    (*engine)->Stop();
    std::map<RequestId, std::vector<std::uint32_t>> tokens;
    for (const auto& [id, outputs] : sink.outputs_) {
      for (const Output& output : outputs) {
        EXPECT_GE(output.token, 1000U);
        EXPECT_LT(output.token, 2000U);
        tokens[id].push_back(output.token);
      }
    }
    return tokens;
  };
  const auto first = run(7);
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8), first);
  EXPECT_NE(first.at(RequestId{0}), first.at(RequestId{1}));
}

TEST_F(MockerEngineTest, CancelEndsTheOutputAndFreesTheBlocks) {
  MockerOptions options = FreeRunning(1);
  options.speedup_ratio = 100.0;
  engine::Engine& engine = Started(options);
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 100, 4000000)).has_value());
  ASSERT_TRUE(
      sink_.WaitFor([](const RecordingSink& s) { return s.outputs_.contains(RequestId{1}); }));
  engine.Cancel(RequestId{1}, RankIndex{0});
  engine.Cancel(RequestId{1}, RankIndex{0});
  engine.Cancel(RequestId{99}, RankIndex{0});
  engine.Cancel(RequestId{1}, RankIndex{12345});
  ASSERT_TRUE(sink_.WaitFor([](const RecordingSink& s) {
    return s.loads_.at(RankIndex{0}).requests_running == 0 &&
           s.loads_.at(RankIndex{0}).blocks_active == 0;
  }));
  // The rank goes on with others, and nothing more of the first comes once the second is done.
  ASSERT_TRUE(engine.Submit(MakeRequest(2, 0, 10, 3)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(1));
  engine.Stop();
  EXPECT_EQ(sink_.outputs_[RequestId{2}].size(), 3U);
  EXPECT_LT(sink_.outputs_[RequestId{1}].size(), 4000000U);
  EXPECT_EQ(sink_.outputs_[RequestId{1}].back().kind, OutputKind::kToken);
}

TEST_F(MockerEngineTest, RefusesRequestsBeyondTheBoundOfTheRank) {
  MockerOptions options = FreeRunning(2);
  options.waiting_requests_max = 4;
  options.startup_time = std::chrono::hours(1);
  engine::Engine& engine = Started(options);
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_TRUE(engine.Submit(MakeRequest(id, 0, 8, 1)).has_value());
  }
  const Status refused = engine.Submit(MakeRequest(4, 0, 8, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kOverloaded);
  EXPECT_TRUE(engine.Submit(MakeRequest(5, 1, 8, 1)).has_value()) << "the other rank has room";
  engine.Cancel(RequestId{0}, RankIndex{0});
  ASSERT_TRUE(sink_.WaitFor([](const RecordingSink& s) {
    const auto load = s.loads_.find(RankIndex{0});
    return load != s.loads_.end() && load->second.requests_waiting == 3;
  }));
  EXPECT_TRUE(engine.Submit(MakeRequest(6, 0, 8, 1)).has_value()) << "a cancel makes room";
}

TEST_F(MockerEngineTest, GivesBackTheBoundWhenRequestsAreAdmitted) {
  MockerOptions options = FreeRunning(1);
  options.waiting_requests_max = 2;
  engine::Engine& engine = Started(options);
  for (std::uint64_t id = 0; id < 50; ++id) {
    ASSERT_TRUE(engine.Submit(MakeRequest(id, 0, 8, 2)).has_value()) << id;
    ASSERT_TRUE(sink_.WaitForEnds(id + 1));
  }
}

TEST_F(MockerEngineTest, HoldsRequestsBackUntilTheStartupTimeHasPassed) {
  MockerOptions options = FreeRunning(1);
  options.startup_time = std::chrono::milliseconds(200);
  const TimePoint before = clock_.Now();
  engine::Engine& engine = Started(options);
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 8, 2)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(1));
  EXPECT_GE(clock_.Now() - before, std::chrono::milliseconds(200));
  EXPECT_EQ(sink_.outputs_[RequestId{1}].size(), 2U);
}

TEST_F(MockerEngineTest, RefusesMalformedRequestsWithoutTakingThem) {
  engine::Engine& engine = Started(FreeRunning(2));
  const auto refusal = [&](engine::Request request) {
    const Status status = engine.Submit(std::move(request));
    return status.has_value() ? Errc::kInternal : status.error().code;
  };
  EXPECT_EQ(refusal(MakeRequest(1, 2, 8, 1)), Errc::kMalformed);
  EXPECT_EQ(refusal(MakeRequest(1, 0, 8, 0)), Errc::kMalformed);
  engine::Request planned = MakeRequest(1, 0, 8, 3);
  planned.planned_tokens = {1, 2};
  EXPECT_EQ(refusal(std::move(planned)), Errc::kMalformed);
}

TEST_F(MockerEngineTest, IsUnavailableBeforeStartAndAfterStop) {
  engine::Engine& engine = Make(FreeRunning(1));
  EXPECT_EQ(engine.Submit(MakeRequest(1, 0, 8, 1)).error().code, Errc::kUnavailable);
  ASSERT_TRUE(engine.Start(sink_).has_value());
  EXPECT_FALSE(engine.Start(sink_).has_value()) << "once per engine";
  engine.Stop();
  engine.Stop();
  EXPECT_EQ(engine.Submit(MakeRequest(1, 0, 8, 1)).error().code, Errc::kUnavailable);
  engine.Cancel(RequestId{1}, RankIndex{0});
}

TEST_F(MockerEngineTest, StopsUnderLoadWhileOthersSubmitAndCancel) {
  MockerOptions options = FreeRunning(8);
  options.speedup_ratio = 1000.0;
  engine::Engine& engine = Started(options);
  std::atomic<bool> refused{false};
  std::thread producer([&] {
    for (std::uint64_t id = 0; !refused; ++id) {
      const Status status =
          engine.Submit(MakeRequest(id, static_cast<std::uint32_t>(id % 8), 64, 100000));
      refused = !status.has_value() && status.error().code == Errc::kUnavailable;
      engine.Cancel(RequestId{id / 2}, RankIndex{static_cast<std::uint32_t>(id / 2 % 8)});
    }
  });
  ASSERT_TRUE(sink_.WaitFor([](const RecordingSink& s) { return s.outputs_.size() > 20; }));
  engine.Stop();
  std::size_t batches = 0;
  {
    const std::lock_guard lock(sink_.mutex_);
    batches = sink_.batches_;
  }
  producer.join();
  engine_.reset();
  EXPECT_EQ(sink_.batches_, batches) << "no call of the sink after Stop";
}

TEST_F(MockerEngineTest, PausesWhenItsReaderDoesNotKeepUp) {
  sink_.keep_credits_ = true;
  MockerOptions options = FreeRunning(1);
  options.num_gpu_blocks = 100000;
  engine::Engine& engine = Started(options);
  constexpr std::uint32_t kTokens = 1000000;
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 8, kTokens)).has_value());
  // The limit is reached long before the request could end, and letting go of the batches sets it
  // free again.
  while (true) {
    std::vector<std::shared_ptr<const void>> credits;
    ASSERT_TRUE(
        sink_.WaitFor([](const RecordingSink& s) { return s.ended_ > 0 || !s.credits_.empty(); }));
    const std::lock_guard lock(sink_.mutex_);
    ASSERT_LT(sink_.outputs_[RequestId{1}].size(), kTokens + 1U);
    if (sink_.ended_ > 0) {
      break;
    }
    credits.swap(sink_.credits_);
  }
  EXPECT_EQ(sink_.outputs_[RequestId{1}].size(), kTokens);
}

TEST_F(MockerEngineTest, AnswersARequestThatOutgrowsThePoolWithAFailure) {
  MockerOptions options = FreeRunning(1);
  options.num_gpu_blocks = 3;
  options.block_size = 4;
  engine::Engine& engine = Started(options);
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 8, 8)).has_value());
  ASSERT_TRUE(engine.Submit(MakeRequest(2, 0, 4, 2)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(2));
  engine.Stop();
  EXPECT_EQ(sink_.outputs_[RequestId{1}].back().kind, OutputKind::kFailed);
  EXPECT_NE(sink_.failures_[RequestId{1}].find("before max tokens reached"), std::string::npos);
  EXPECT_EQ(sink_.outputs_[RequestId{2}].back().kind, OutputKind::kLastToken);
}

TEST_F(MockerEngineTest, SendsNoEventsWhenTheyAreOff) {
  MockerOptions options = FreeRunning(1);
  options.kv_events = false;
  engine::Engine& engine = Started(options);
  EXPECT_FALSE(engine.traits().kv_events);
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 0, 64, 40)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(1));
  engine.Stop();
  EXPECT_TRUE(sink_.events_.empty());
}

TEST_F(MockerEngineTest, NumbersTheEventsOfEachRankFromZero) {
  engine::Engine& engine = Started(FreeRunning(4));
  for (std::uint64_t id = 0; id < 32; ++id) {
    ASSERT_TRUE(engine.Submit(MakeRequest(id, id % 4, 64, 40)).has_value());
  }
  ASSERT_TRUE(sink_.WaitForEnds(32));
  engine.Stop();
  std::map<RankIndex, std::uint64_t> next;
  for (const engine::KvEvent& event : sink_.events_) {
    EXPECT_EQ(event.event_id, next[event.rank]++);
  }
  EXPECT_EQ(next.size(), 4U);
}

TEST_F(MockerEngineTest, DumpsItsStateAsJson) {
  engine::Engine& engine = Started(FreeRunning(3));
  ASSERT_TRUE(engine.Submit(MakeRequest(1, 1, 64, 8)).has_value());
  ASSERT_TRUE(sink_.WaitForEnds(1));
  const auto dump = nlohmann::json::parse(engine.DumpState(), nullptr, false);
  ASSERT_FALSE(dump.is_discarded());
  EXPECT_EQ(dump["ranks_total"], 3);
  EXPECT_EQ(dump["threads_silent"], 0);
  std::size_t ranks = 0;
  for (const auto& thread : dump["threads"]) {
    for (const auto& rank : thread["ranks"]) {
      ++ranks;
      EXPECT_EQ(rank["rank"], 1);
      EXPECT_GE(rank["passes_total"], 8);
      EXPECT_EQ(rank["blocks_active"].get<int>() + rank["blocks_cached"].get<int>() +
                    rank["blocks_free"].get<int>(),
                16384);
    }
  }
  EXPECT_EQ(ranks, 1U);
  engine.Stop();
  EXPECT_FALSE(nlohmann::json::parse(engine.DumpState(), nullptr, false).is_discarded());
}

}  // namespace
}  // namespace understudy::mocker
