// A prefill and a decode side of hand-offs with real engines, loops and sockets, and without the
// rest of a worker.
#pragma once

#include "tests/unit/plugin/handoff/live_rig.h"
#include "understudy/base/assert.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/destination_session.h"
#include "worker/handoff/source_manager.h"
#include "worker/handoff/wire.h"

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {

inline mocker::MockerOptions PairOptions(mocker::WorkerType worker,
                                         mocker::EngineType engine,
                                         double bandwidth) {
  mocker::MockerOptions options = mocker::RigOptions(worker, 1000.0);
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

/// What a prefill side allows.
struct PrefillLimits {
  std::size_t sessions_max = 4096;
  std::size_t pending_max = 4096;
  Nanoseconds session_timeout = std::chrono::seconds(60);
  Nanoseconds registration_timeout = std::chrono::seconds(30);
};

class Prefill {
 public:
  explicit Prefill(mocker::EngineType engine,
                   double bandwidth = 0.0,
                   const PrefillLimits& limits = {},
                   mocker::TransferTiming timing = mocker::TransferTiming::kFullPrompt)
      : rig(Options(engine, bandwidth, timing)), engine_(engine) {
    rig.Do([&] {
      manager_ = std::make_unique<SourceManager>(
          SessionPlace{rig.thread.loop(), rig.clock, limits.session_timeout}, limits.sessions_max);
      transport::BootstrapListener::Options options;
      options.host = "127.0.0.1";
      options.pending_max = limits.pending_max;
      options.registration_timeout = limits.registration_timeout;
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
  /// Hand-offs that wait for a partner or are at work.
  std::size_t open() {
    return rig.Do([this] { return manager_->pending() + manager_->active(); });
  }
  SourceManagerCounts counts() {
    return rig.Do([this] { return manager_->counts(); });
  }
  transport::BootstrapListenerCounts listener_counts() {
    return rig.Do([this] { return listener_->counts(); });
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

  mocker::LiveRig rig;
  std::uint16_t port = 0;

 private:
  static mocker::MockerOptions Options(mocker::EngineType engine,
                                       double bandwidth,
                                       mocker::TransferTiming timing) {
    mocker::MockerOptions options = PairOptions(mocker::WorkerType::kPrefill, engine, bandwidth);
    options.kv_transfer_timing = timing;
    return options;
  }

  const mocker::EngineType engine_;
  SessionPermits permits_{1, 4096};
  std::unique_ptr<SourceManager> manager_;
  std::unique_ptr<transport::BootstrapListener> listener_;
  std::vector<std::unique_ptr<engine::LiveRequest>> lives_;
  std::map<Uuid, SourceManager::Ticket> tickets_;
};

class Decode {
 public:
  explicit Decode(mocker::EngineType engine)
      : rig(PairOptions(mocker::WorkerType::kAggregated, engine, 0.0)), engine_(engine) {}
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

  mocker::LiveRig rig;

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

  const mocker::EngineType engine_;
  std::map<Uuid, std::unique_ptr<One>> sessions_;
};

inline transport::BootstrapIdentity PairIdentity(std::uint64_t id) {
  return {{5, id}, id, {6, id}};
}

inline void ExpectIdle(mocker::LiveRig& rig) {
  EXPECT_NE(rig.engine->DumpState().find("\"handoffs\":0"), std::string::npos)
      << rig.engine->DumpState();
}

}  // namespace understudy::worker
