// Whole hand-offs: two engines with their threads, two loops, and TCP between them.
#include "tests/unit/plugin/handoff/live_rig.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/destination_session.h"
#include "worker/handoff/source_manager.h"
#include "worker/handoff/wire.h"

#include <atomic>
#include <future>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using mocker::EngineType;
using mocker::LiveRig;
using mocker::MockerOptions;
using mocker::WorkerType;

MockerOptions Options(WorkerType worker, EngineType engine, double bandwidth) {
  MockerOptions options = mocker::RigOptions(worker, 1000.0);
  options.engine_type = engine;
  options.kv_transfer_bandwidth = bandwidth;
  options.kv_events = true;
  return options;
}

/// What one request heard at its end.
class Ending {
 public:
  std::function<void(Status)> Taker() {
    return [this](Status status) { told_.set_value(std::move(status)); };
  }
  /// "" = well.
  std::string Wait() {
    const Status status = fakes::Await(told_.get_future());
    return status ? "" : status.error().message;
  }

 private:
  std::promise<Status> told_;
};

class Prefill {
 public:
  explicit Prefill(EngineType engine, double bandwidth = 0.0)
      : rig(Options(WorkerType::kPrefill, engine, bandwidth)), engine_(engine) {
    rig.Do([this] {
      manager_ = std::make_unique<SourceManager>(
          SessionPlace{rig.thread.loop(), rig.clock, std::chrono::seconds(60)}, 4096);
      transport::BootstrapListener::Options options;
      options.host = "127.0.0.1";
      options.pending_max = 4096;
      auto listener = transport::ListenForBootstrap(rig.thread.loop(), options);
      UNDERSTUDY_ASSERT(listener);
      listener_ = std::move(*listener);
      listener_->Take([this](transport::BootstrapIncoming incoming) {
        manager_->OnDestination(std::move(incoming));
      });
      port = listener_->port();
      return true;
    });
  }
  ~Prefill() { Close(); }
  Prefill(const Prefill&) = delete;
  Prefill& operator=(const Prefill&) = delete;

  void Request(const transport::BootstrapIdentity& identity,
               std::size_t prompt,
               Ending& ending,
               std::vector<HandoffStep>* steps = nullptr) {
    rig.Do([&] {
      SourceParticipant source;
      source.identity = identity;
      source.order = *OrderOf(engine_);
      source.engine_type = engine_;
      source.handoff.registration = *rig.handoffs->Register({identity.handoff_id}, RankIndex{0});
      auto prepared =
          *rig.handoffs->Prepare(rig.MakeRequest(prompt, 1), ToText(identity.request_id));
      source.handoff.request = std::move(prepared.request);
      lives_.push_back(std::move(prepared.life));
      source.handoff.permit = *permits_.Take(0);
      source.completion = ending.Taker();
      if (steps != nullptr) {
        source.observer = [steps](HandoffStep step) { steps->push_back(step); };
      }
      tickets_[identity.handoff_id] = *manager_->Offer(std::move(source));
      return true;
    });
  }
  void Cancel(const transport::BootstrapIdentity& identity) {
    rig.Do([&] {
      manager_->Cancel(tickets_[identity.handoff_id]);
      return true;
    });
  }
  std::uint64_t permits_taken() {
    return rig.Do([this] { return permits_.taken(0); });
  }
  void Shutdown() {
    rig.thread.Ask<bool>([this](auto done) { manager_->Shutdown([done] { done(true); }); });
  }
  void Close() {
    rig.Do([this] {
      listener_.reset();
      manager_.reset();
      lives_.clear();
      return true;
    });
  }

  LiveRig rig;
  std::uint16_t port = 0;

 private:
  const EngineType engine_;
  SessionPermits permits_{1, 4096};
  std::unique_ptr<SourceManager> manager_;
  std::unique_ptr<transport::BootstrapListener> listener_;
  std::vector<std::unique_ptr<engine::LiveRequest>> lives_;
  std::map<Uuid, SourceManager::Ticket> tickets_;
};

class Decode {
 public:
  explicit Decode(EngineType engine)
      : rig(Options(WorkerType::kAggregated, engine, 0.0)), engine_(engine) {}
  ~Decode() {
    rig.Do([this] {
      sessions_.clear();
      return true;
    });
  }
  Decode(const Decode&) = delete;
  Decode& operator=(const Decode&) = delete;

  /// `tokens`: when the request has all its tokens.
  void Request(std::uint16_t port,
               const transport::BootstrapIdentity& identity,
               std::size_t prompt,
               std::uint32_t outputs,
               Ending& ending,
               std::promise<std::size_t>* tokens = nullptr) {
    rig.Do([&] {
      auto one = std::make_unique<One>();
      One* self = one.get();
      self->handoff.registration = *rig.handoffs->Register({identity.handoff_id}, RankIndex{0});
      engine::Request request = rig.MakeRequest(prompt, outputs);
      const RequestId id = request.id;
      auto prepared = *rig.handoffs->Prepare(std::move(request), ToText(identity.request_id));
      self->handoff.request = std::move(prepared.request);
      self->life = std::move(prepared.life);
      self->ending = ending.Taker();
      if (tokens != nullptr) {
        rig.WhenDone(id, [this, id, self, tokens] {
          self->life->Finished();
          tokens->set_value(rig.tokens[id]);
        });
      }
      self->connection =
          transport::DialBootstrap(rig.thread.loop(),
                                   {"127.0.0.1", port},
                                   identity,
                                   {0, ToWire(*OrderOf(engine_)), ToWire(engine_)},
                                   [this, self](const Status& open) { Opened(*self, open); });
      sessions_[identity.handoff_id] = std::move(one);
      return true;
    });
  }
  /// The client of the request is gone.
  void Cancel(const transport::BootstrapIdentity& identity) {
    rig.Do([&] {
      One& one = *sessions_[identity.handoff_id];
      if (one.session) {
        one.session->Cancel();
      }
      one.life.reset();
      return true;
    });
  }

  LiveRig rig;

 private:
  struct One {
    HandoffRequest handoff;
    std::unique_ptr<engine::LiveRequest> life;
    std::unique_ptr<transport::BootstrapConnection> connection;
    std::unique_ptr<DestinationSession> session;
    std::function<void(Status)> ending;
  };
  void Opened(One& one, const Status& open) {
    if (!open) {
      one.handoff = {};
      one.ending(open);
      return;
    }
    one.session = std::make_unique<DestinationSession>(
        SessionPlace{rig.thread.loop(), rig.clock, std::chrono::seconds(60)},
        std::move(one.handoff),
        std::move(one.connection),
        [&one](Status status) {
          const auto ending = std::move(one.ending);
          one.session.reset();
          ending(std::move(status));
        });
    one.session->Begin();
  }

  const EngineType engine_;
  std::map<Uuid, std::unique_ptr<One>> sessions_;
};

transport::BootstrapIdentity Identity(std::uint64_t id) {
  return {{5, id}, id, {6, id}};
}

void ExpectIdle(LiveRig& rig) {
  EXPECT_NE(rig.engine->DumpState().find("\"handoffs\":0"), std::string::npos)
      << rig.engine->DumpState();
}

class HandoffPair : public ::testing::TestWithParam<EngineType> {};

TEST_P(HandoffPair, M166_APromptGoesFromOneToTheOther) {
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  std::vector<HandoffStep> steps;
  std::promise<std::size_t> tokens;
  prefill.Request(Identity(1), 60, source, &steps);
  const auto begin = std::chrono::steady_clock::now();
  decode.Request(prefill.port, Identity(1), 60, 5, destination, &tokens);
  EXPECT_EQ(destination.Wait(), "");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(source.Wait(), "");
  EXPECT_EQ(fakes::Await(tokens.get_future()), 5U);
  RecordProperty(
      "handoff_us",
      static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  const bool source_first = *OrderOf(GetParam()) == mocker::handoff::Order::kSourceFirst;
  std::vector<HandoffStep> expected = {HandoffStep::kDestinationAccepted,
                                       HandoffStep::kDestinationReserved};
  expected.insert(source_first ? expected.begin() : expected.end(), HandoffStep::kSourceHeld);
  expected.insert(
      expected.end(),
      {HandoffStep::kDestinationActivated, HandoffStep::kSourceReleased, HandoffStep::kCompleted});
  EXPECT_EQ(prefill.rig.Do([&] { return steps; }), expected);
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, TheDestinationMayComeFirst) {
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  decode.Request(prefill.port, Identity(1), 60, 5, destination);
  prefill.Request(Identity(1), 60, source);
  EXPECT_EQ(destination.Wait(), "");
  EXPECT_EQ(source.Wait(), "");
}

TEST_P(HandoffPair, M167_OtherEnginesDoNotMatch) {
  Prefill prefill(GetParam());
  Decode decode(GetParam() == EngineType::kVllm ? EngineType::kSglang : EngineType::kVllm);
  Ending source;
  Ending destination;
  prefill.Request(Identity(1), 60, source);
  decode.Request(prefill.port, Identity(1), 60, 5, destination);
  EXPECT_EQ(source.Wait(), "handoff participant identity or backend mismatch");
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, M212_AClientThatLeavesDuringTheTransferEndsBothSides) {
  Prefill prefill(GetParam(), /*bandwidth=*/1e-6);  // hours
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  std::vector<HandoffStep> steps;
  prefill.Request(Identity(1), 60, source, &steps);
  decode.Request(prefill.port, Identity(1), 60, 5, destination);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (prefill.rig.Do([&] { return steps.size(); }) < 3) {  // held, accepted, reserved
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }
  decode.Cancel(Identity(1));
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  EXPECT_EQ(source.Wait(), "destination disconnected");
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, M125_AShutdownOfThePrefillSideEndsBoth) {
  Prefill prefill(GetParam(), /*bandwidth=*/1e-6);
  Decode decode(GetParam());
  Ending source;
  Ending destination;
  Ending waiting;
  prefill.Request(Identity(1), 60, source);
  decode.Request(prefill.port, Identity(1), 60, 5, destination);
  prefill.Request(Identity(2), 60, waiting);
  prefill.Shutdown();
  // Whether the two had met by then is a matter of time.
  const std::string text = source.Wait();
  EXPECT_TRUE(text == "mocker is shutting down" || text == "handoff manager is shutting down");
  EXPECT_EQ(waiting.Wait(), "handoff manager is shutting down");
  prefill.Close();  // a connection that nobody took by then
  EXPECT_EQ(destination.Wait(), "destination handoff ended before completion");
  ExpectIdle(decode.rig);
}

TEST_P(HandoffPair, ManyAtOnceAllEndAlsoTheAbandonedOnes) {
  constexpr std::uint64_t kMany = 200;
  Prefill prefill(GetParam());
  Decode decode(GetParam());
  std::vector<Ending> sources(kMany);
  std::vector<Ending> destinations(kMany);
  std::mt19937 random(17);
  for (std::uint64_t id = 0; id < kMany; ++id) {
    const std::size_t prompt = 1 + random() % 200;
    prefill.Request(Identity(id), prompt, sources[id]);
    decode.Request(prefill.port, Identity(id), prompt, 3, destinations[id]);
    if (random() % 4 == 0) {
      prefill.Cancel(Identity(random() % (id + 1)));
    }
    if (random() % 4 == 0) {
      decode.Cancel(Identity(random() % (id + 1)));
    }
  }
  std::size_t well = 0;
  for (std::uint64_t id = 0; id < kMany; ++id) {
    const std::string source = sources[id].Wait();
    const std::string destination = destinations[id].Wait();
    well += source.empty() && destination.empty() ? 1U : 0U;
    EXPECT_FALSE(destination.empty() && !source.empty()) << source;
  }
  EXPECT_GT(well, kMany / 4);
  EXPECT_EQ(prefill.permits_taken(), 0U);
  ExpectIdle(prefill.rig);
  prefill.Close();
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         HandoffPair,
                         ::testing::Values(EngineType::kVllm, EngineType::kSglang),
                         [](const auto& type) {
                           return type.param == EngineType::kVllm ? "Vllm" : "Sglang";
                         });

}  // namespace
}  // namespace understudy::worker
