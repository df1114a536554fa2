#include "worker/relay/relay_app.h"

#include "understudy/base/clock.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/http_server.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/zmq.h"
#include "worker/event_side/open_plane.h"
#include "worker/lifecycle/health.h"
#include "worker/lifecycle/links.h"
#include "worker/log/log.h"
#include "worker/metrics/engine_event_metrics.h"
#include "worker/metrics/metrics.h"
#include "worker/relay/follower.h"
#include "worker/relay/session.h"
#include "worker/request_path/service_info.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.relay";
constexpr Nanoseconds kSubscribeLimit = std::chrono::seconds(5);
constexpr Nanoseconds kRevokeLimit = std::chrono::seconds(2);
constexpr Nanoseconds kDisconnectLimit = std::chrono::milliseconds(500);
constexpr int kExitStartFailed = 1;

class RelayApp {
 public:
  RelayApp(RelayPlan plan, const Environment& env)
      : plan_(std::move(plan)),
        env_(env),
        loop_(transport::Loop::New()),
        metrics_(Metrics::New()),
        started_(clock_.Now()),
        seats_(plan_.engines.size()) {}

  int Run() {
    loop_->OnSignal(SIGTERM, [this] { Stop("Received shutdown signal", 0); });
    loop_->OnSignal(SIGINT, [this] { Stop("Received shutdown signal", 0); });
    auto wire = EventWireOf(plan_.event_plane, env_);
    if (!wire) {
      Log(LogLevel::kError, kTarget, wire.error().message);
      return kExitStartFailed;
    }
    event_wire_ = std::move(*wire);
    loop_->Post([this] { Start(); });
    loop_->Run();
    return exit_code_;
  }

 private:
  /// The place of one engine: empty while nobody's events are relayed.
  struct Seat {
    std::unique_ptr<RelaySession> session;
    bool registered = false;
  };

  void Start() {
    auto discovery = OpenDiscovery(*loop_, plan_.discovery_backend, env_);
    if (!discovery) {
      FailStart(discovery.error());
      return;
    }
    discovery_ = std::move(*discovery);
    ServeStatus();
    auto options = NatsFromEnvironment(env_);
    Log(LogLevel::kInfo,
        kTarget,
        "starting",
        {{"nats_server", transport::WithoutCredentials(options.url)},
         {"nats_server_from", Text(env_, "NATS_SERVER", "").empty() ? "default" : "NATS_SERVER"},
         {"event_plane", plan_.event_plane},
         {"discovery", plan_.discovery_backend},
         {"endpoint", plan_.endpoint.Dotted()},
         {"engines", std::to_string(plan_.engines.size())},
         {"first_engine", plan_.engines.front().events}});
    options.name = "understudy relay queries";
    requests_ = transport::NatsClient::New(*loop_, options);
    if (plan_.event_plane == "nats") {
      options.name = "understudy relay events";
      events_ = transport::NatsClient::New(*loop_, options);
    }
    StartNats(*requests_, events_.get(), [this](const Status& connected) { Connected(connected); });
  }

  void ServeStatus() {
    status_ = OpenStatusServer(*loop_,
                               plan_.status,
                               StatusRoutes(
                                   plan_.status,
                                   plan_.endpoint.endpoint,
                                   [this] { return health_; },
                                   [this] { return MetricsText(); },
                                   [this] { return clock_.Now() - started_; }),
                               kTarget);
  }

  std::string MetricsText() {
    std::vector<const EngineSubscriber*> subscribers;
    std::uint64_t doubtful = 0;
    for (const Seat& seat : seats_) {
      if (seat.session) {
        doubtful += seat.session->doubtful();
        for (const auto& subscriber : seat.session->subscribers()) {
          subscribers.push_back(subscriber.get());
        }
      }
    }
    metrics_->NatsMessagesDropped(requests_ ? requests_->messages_dropped() : 0);
    metrics_->KvEventsDoubtful(doubtful);
    const EngineEventLabels labels{plan_.endpoint.ns,
                                   plan_.endpoint.component,
                                   process_ ? transport::HexId(process_->own_id) : std::string()};
    return metrics_->Scrape(std::chrono::duration<double>(clock_.Now() - started_).count()) +
           EngineEventMetrics(labels, subscribers);
  }

  void Connected(const Status& connected) {
    if (stopping_) {
      return;
    }
    if (!connected) {
      FailStart(connected.error());
      return;
    }
    WatchNats(*requests_, "queries", kTarget, *metrics_, [] {});
    if (events_) {
      WatchNats(*events_, "events", kTarget, *metrics_, [this] {
        for (const Seat& seat : seats_) {
          if (seat.session) {
            seat.session->SayNewestAgain();
          }
        }
      });
    }
    discovery_->OnLease(
        [this](transport::LeaseState state, const std::string& text) { OnLease(state, text); });
    const auto started = [this](const Result<std::uint64_t>& lease) {
      if (stopping_) {
        return;
      }
      if (!lease) {
        FailStart(lease.error());
        return;
      }
      zmq_ = transport::ZmqContext::New();
      plane_ = OpenEventPlane(*loop_, event_wire_, events_.get(), zmq_);
      Serve(*lease);
    };
    StartWithBrokers(*discovery_, plan_.endpoint.ns, event_wire_.brokers, started);
  }

  void OnLease(transport::LeaseState state, const std::string& text) {
    using transport::LeaseState;
    has_lease_ = state != LeaseState::kLost;
    if (state == LeaseState::kLost) {
      metrics_->LeaseLost();
    }
    LogLease(state, text, kTarget);
    UpdateHealth();
  }

  void Serve(std::uint64_t own_id) {
    // All query endpoints of the process share one subscription.
    const auto prefix = ServiceName(plan_.endpoint.ns, plan_.endpoint.component) + ".q" +
                        transport::HexId(own_id) + ".";
    process_.emplace(RelaySession::Process{
        *loop_, clock_, *metrics_, *requests_, *plane_, zmq_, plan_, own_id, prefix});
    requests_->Subscribe(
        prefix + "*", "q", [this](const transport::NatsMessage& message) { OnQuery(message); });
    requests_->Flush(kSubscribeLimit, [this](const Status& effective) {
      if (stopping_) {
        return;
      }
      if (!effective) {
        FailStart(effective.error());
        return;
      }
      Follow();
    });
  }

  void OnQuery(const transport::NatsMessage& message) {
    const auto found = by_subject_.find(std::string(message.subject));
    if (found != by_subject_.end()) {
      found->second->OnQuery(message);
    }
  }

  void Follow() {
    if (!plan_.follow) {
      std::vector<SeenInstance> fixed;
      for (const RelayedEngine& engine : plan_.engines) {
        fixed.push_back({*engine.worker_id, false, {}, {}, {}});
      }
      Seen(fixed);
      return;
    }
    Log(LogLevel::kInfo,
        kTarget,
        "looking for the instances whose events are relayed",
        {{"endpoint", plan_.endpoint.Dotted()}});
    follower_ = std::make_unique<Follower>(
        *loop_, *discovery_, plan_.endpoint, [this](const auto& seen) { Seen(seen); });
    follower_->Start();
  }

  void Seen(const std::vector<SeenInstance>& seen) {
    for (std::size_t i = 0; i < seats_.size() && !stopping_; ++i) {
      Seat& seat = seats_[i];
      const auto has = [&](std::uint64_t id) {
        return std::find_if(seen.begin(), seen.end(), [=](const auto& s) { return s.id == id; });
      };
      if (seat.session && has(seat.session->worker().id) == seen.end()) {
        Leave(i);
      }
      if (seat.session) {
        continue;
      }
      const auto wanted =
          plan_.engines[i].worker_id ? has(*plan_.engines[i].worker_id) : OnlyOne(seen);
      if (wanted != seen.end()) {
        Join(i, *wanted);
      }
    }
  }

  std::vector<SeenInstance>::const_iterator OnlyOne(const std::vector<SeenInstance>& seen) {
    if (seen.size() > 1) {
      Log(LogLevel::kWarn,
          kTarget,
          "several instances: --instance-id must say whose events these are",
          {{"endpoint", plan_.endpoint.Dotted()}, {"instances", std::to_string(seen.size())}});
      return seen.end();
    }
    return seen.begin();
  }

  void Join(std::size_t index, const SeenInstance& instance) {
    const auto block_size = plan_.block_size ? plan_.block_size : instance.block_size;
    if (!block_size) {
      if (instance.has_card) {
        FailStart({Errc::kInvalidConfig,
                   "--block-size is needed: the model card of instance " +
                       transport::HexId(instance.id) + " names none"});
      }
      return;  // its card comes with a later view
    }
    RelaySession::Worker worker;
    worker.id = instance.id;
    worker.first_rank = plan_.first_rank.value_or(instance.first_rank.value_or(0));
    worker.ranks = plan_.ranks.value_or(instance.ranks.value_or(1));
    worker.block_size = *block_size;
    auto session = RelaySession::Open(*process_, plan_.engines[index], worker);
    if (!session) {
      FailStart(session.error());
      return;
    }
    Seat& seat = seats_[index];
    seat.session = std::move(*session);
    for (const auto& subject : seat.session->subjects()) {
      by_subject_[subject] = seat.session.get();
    }
    Log(LogLevel::kInfo,
        kTarget,
        "relaying KV events",
        {{"instance", transport::HexId(worker.id)},
         {"engine", plan_.engines[index].events},
         {"replay", plan_.engines[index].replay.empty() ? "none" : plan_.engines[index].replay},
         {"first_rank", std::to_string(worker.first_rank)},
         {"ranks", std::to_string(worker.ranks)},
         {"block_size", std::to_string(worker.block_size)}});
    discovery_->Put(seat.session->Records(), [this, index, id = worker.id](const Status& written) {
      Registered(index, id, written);
    });
  }

  void Registered(std::size_t index, std::uint64_t id, const Status& written) {
    Seat& seat = seats_[index];
    if (stopping_ || !seat.session || seat.session->worker().id != id) {
      return;
    }
    if (!written) {
      FailStart(written.error());
      return;
    }
    seat.registered = true;
    UpdateHealth();
    if (health_.registered && !std::exchange(said_ready_, true)) {
      Ready();
    }
  }

  void Leave(std::size_t index) {
    Seat& seat = seats_[index];
    Log(LogLevel::kInfo,
        kTarget,
        "the instance is gone, its events are withdrawn",
        {{"instance", transport::HexId(seat.session->worker().id)}});
    std::vector<std::string> keys;
    for (const auto& record : seat.session->Records()) {
      keys.push_back(record.key);
    }
    for (const auto& subject : seat.session->subjects()) {
      by_subject_.erase(subject);
    }
    seat.session->Stop();
    seat = {};
    UpdateHealth();
    discovery_->Delete(std::move(keys), [](const Status& deleted) {
      if (!deleted) {
        Log(LogLevel::kWarn, kTarget, "records not deleted", {{"error", deleted.error().message}});
      }
    });
  }

  void UpdateHealth() {
    health_.engine_started = true;
    health_.registered =
        has_lease_ &&
        std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.registered; });
    metrics_->Registered(health_.registered);
  }

  void Ready() {
    std::string ids;
    for (const Seat& seat : seats_) {
      ids += (ids.empty() ? "" : ",") + transport::HexId(seat.session->worker().id);
    }
    const auto status = status_ ? status_->address() : std::string("off");
    std::printf("ready instance=%s relay=%s endpoint=%s event_plane=%s discovery=%s status=%s\n",
                ids.c_str(),
                transport::HexId(process_->own_id).c_str(),
                plan_.endpoint.Dotted().c_str(),
                plan_.event_plane.c_str(),
                plan_.discovery_backend.c_str(),
                status.c_str());
    std::fflush(stdout);
  }

  void FailStart(const Error& error) {
    if (!stopping_) {
      Log(LogLevel::kError, kTarget, error.message);
      Stop("start failed", kExitStartFailed);
    }
  }

  void Stop(const char* why, int exit_code) {
    if (std::exchange(stopping_, true)) {
      loop_->Stop();  // a second signal
      return;
    }
    Log(LogLevel::kInfo, kTarget, why);
    exit_code_ = exit_code;
    health_.draining = true;
    if (follower_) {
      follower_->Stop();
    }
    // Not from inside what calls us: a session may be among its callers.
    loop_->Post([this] {
      for (const Seat& seat : seats_) {
        if (seat.session) {
          seat.session->Stop();
        }
      }
      if (!discovery_) {
        Disconnect();
        return;
      }
      discovery_->Close(kRevokeLimit, [this](const Status& closed) {
        if (!closed) {
          Log(LogLevel::kWarn,
              kTarget,
              "lease not revoked, records stay until it expires",
              {{"error", closed.error().message}});
        }
        Disconnect();
      });
    });
  }

  void Disconnect() {
    closing_ = 1;
    const auto one_less = [this] {
      if (--closing_ == 0) {
        loop_->Stop();
      }
    };
    for (auto* client : {requests_.get(), events_.get()}) {
      if (client != nullptr) {
        ++closing_;
        client->Close(kDisconnectLimit, one_less);
      }
    }
    loop_->Post(one_less);
  }

  const RelayPlan plan_;
  const Environment& env_;
  SteadyClock clock_;
  std::unique_ptr<transport::Loop> loop_;
  std::unique_ptr<Metrics> metrics_;
  TimePoint started_;
  HealthState health_;
  EventWire event_wire_;
  std::unique_ptr<transport::HttpServer> status_;
  std::unique_ptr<transport::Discovery> discovery_;
  std::unique_ptr<transport::NatsClient> requests_, events_;
  std::shared_ptr<transport::ZmqContext> zmq_;
  std::unique_ptr<transport::EventPlane> plane_;
  std::optional<RelaySession::Process> process_;
  std::vector<Seat> seats_;  // by engine
  std::unordered_map<std::string, RelaySession*> by_subject_;
  std::unique_ptr<Follower> follower_;
  bool has_lease_ = true, said_ready_ = false, stopping_ = false;
  int closing_ = 0, exit_code_ = 0;
};

}  // namespace

int RunRelay(RelayPlan plan, const Environment& env) {
  std::signal(SIGPIPE, SIG_IGN);
  return RelayApp(std::move(plan), env).Run();
}

}  // namespace understudy::worker
