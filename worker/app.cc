#include "worker/app.h"

#include "understudy/base/clock.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/durable_events.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/http_server.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/zmq.h"
#include "worker/config/open_engine.h"
#include "worker/config/release_profile.h"
#include "worker/control/control_side.h"
#include "worker/event_side/event_side.h"
#include "worker/event_side/open_plane.h"
#include "worker/handoff/open_handoffs.h"
#include "worker/kv_relay/query_server.h"
#include "worker/lifecycle/health.h"
#include "worker/lifecycle/links.h"
#include "worker/lifecycle/shutdown.h"
#include "worker/lifecycle/state_dump.h"
#include "worker/log/log.h"
#include "worker/metrics/metrics.h"
#include "worker/metrics/native_metrics.h"
#include "worker/registration/registration.h"
#include "worker/request_path/ingress.h"
#include "worker/request_path/replay_table.h"
#include "worker/request_path/request_path.h"
#include "worker/request_path/service_info.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.app";
constexpr Nanoseconds kSubscribeLimit = std::chrono::seconds(5);
constexpr std::int64_t kStreamMaxAgeS = 3600;
constexpr int kExitStartFailed = 1;
constexpr int kExitLeaseLost = 3;

/// Null when there is none.
Result<std::unique_ptr<ReplayTable>> LoadReplayTable(const WorkerConfig& config) {
  const auto& path = config.args.response_replay_trace_path;
  if (path.empty()) {
    return nullptr;
  }
  UNDERSTUDY_TRY(auto table, ReplayTable::Load(path));
  Log(LogLevel::kInfo,
      kTarget,
      "loaded response replay token table",
      {{"rows", std::to_string(table.rows())}, {"tokens", std::to_string(table.tokens())}});
  return std::make_unique<ReplayTable>(std::move(table));
}

class App {
 public:
  App(WorkerConfig config, const Environment& env)
      : config_(std::move(config)),
        env_(env),
        loop_(transport::Loop::New()),
        metrics_(Metrics::New()),
        started_(clock_.Now()),
        startup_timer_(loop_->NewTimer()) {}

  int Run() {
    loop_->OnSignal(SIGTERM, [this] { Stop("Received shutdown signal", 0); });
    loop_->OnSignal(SIGINT, [this] { Stop("Received shutdown signal", 0); });
    loop_->OnSignal(SIGUSR1, [this] { Dump(); });
    auto wire = EventWireOf(config_.options.event_plane, env_);
    if (!wire) {
      Log(LogLevel::kError, kTarget, wire.error().message);
      return kExitStartFailed;
    }
    event_wire_ = std::move(*wire);
    auto bootstrap = config_.bootstrap_ports.empty() ? std::string() : BootstrapHost(env_);
    if (!bootstrap) {
      Log(LogLevel::kError, kTarget, bootstrap.error().message);
      return kExitStartFailed;
    }
    bootstrap_host_ = std::move(*bootstrap);
    loop_->Post([this] { Start(); });
    loop_->Run();
    if (engine_) {
      engine_->Stop();
    }
    return exit_code_;
  }

 private:
  void Start() {
    auto engine = OpenEngine(config_, clock_);
    if (!engine) {
      FailStart(engine.error());
      return;
    }
    engine_ = std::move(*engine);
    for (const auto& warning : config_.args.warnings) {
      Log(LogLevel::kWarn, kTarget, warning);
    }
    if (auto table = LoadReplayTable(config_); !table) {
      FailStart(table.error());
      return;
    } else {
      replay_table_ = std::move(*table);
    }
    if (auto card = MakeCard(config_); !card) {
      FailStart(card.error());
      return;
    } else {
      card_ = std::move(*card);
    }
    auto profile = MakeReleaseProfile(config_.options.dynamo_release, config_.endpoint);
    auto discovery = OpenDiscovery(*loop_, config_.options.discovery_backend, env_);
    if (!profile || !discovery) {
      FailStart(!profile ? profile.error() : discovery.error());
      return;
    }
    profile_ = std::move(*profile);
    native_ = NativeMetrics::New({config_.args.engine.engine_type,
                                  config_.dp_size,
                                  config_.workers * config_.dp_size,
                                  config_.args.engine.worker_type == mocker::WorkerType::kPrefill});
    DeclareKvEvents(card_,
                    profile_,
                    engine_->traits().kv_events,
                    config_.args.enable_local_indexer && !config_.options.durable_kv_events);
    ServeStatus();
    ConnectNats(std::move(*discovery));
  }

  void ServeStatus() {
    status_ = OpenStatusServer(
        *loop_,
        config_.status,
        StatusRoutes(
            config_.status,
            config_.endpoint.endpoint,
            [this] { return health_; },
            [this] {
              metrics_->NatsMessagesDropped(requests_ ? requests_->messages_dropped() : 0);
              metrics_->KvEventsDoubtful(event_side_ ? event_side_->relay().doubtful() : 0);
              return metrics_->Scrape(std::chrono::duration<double>(Uptime()).count()) +
                     native_->Scrape() + (event_side_ ? event_side_->EngineMetrics() : "") +
                     (handoffs_ ? handoffs_->Scrape() : "") + (control_ ? control_->Scrape() : "");
            },
            [this] { return Uptime(); }),
        kTarget);
  }

  void ConnectNats(std::unique_ptr<transport::Discovery> discovery) {
    auto options = NatsFromEnvironment(env_);
    Log(LogLevel::kInfo,
        kTarget,
        "starting",
        {{"nats_server", transport::WithoutCredentials(options.url)},
         {"nats_server_from", Text(env_, "NATS_SERVER", "").empty() ? "default" : "NATS_SERVER"},
         {"request_plane", config_.options.request_plane},
         {"event_plane", config_.options.event_plane},
         {"discovery", config_.options.discovery_backend},
         {"seed", std::to_string(config_.seed)}});
    options.name = "understudy requests";
    requests_ = transport::NatsClient::New(*loop_, options);
    if (config_.options.event_plane == "nats") {
      options.name = "understudy events";
      events_ = transport::NatsClient::New(*loop_, options);
    }
    discovery_ = std::move(discovery);
    StartNats(
        *requests_, events_.get(), [this](const Status& connected) { NatsConnected(connected); });
  }

  void NatsConnected(const Status& connected) {
    if (!connected) {
      FailStart(connected.error());
      return;
    }
    WatchLinks();
    if (!config_.options.durable_kv_events) {
      GrantLease();
      return;
    }
    durable_ = transport::NewDurableEvents(
        *loop_,
        *events_,
        config_.endpoint,
        static_cast<std::uint64_t>(Number(env_, "DYN_NATS_STREAM_MAX_AGE", kStreamMaxAgeS, 1)));
    durable_->OnProblem([](const std::string& text) {
      Log(LogLevel::kWarn, kTarget, "KV events are not stored", {{"reason", text}});
    });
    durable_->Open([this](const Status& open) {
      if (!open) {
        FailStart(open.error());
        return;
      }
      GrantLease();
    });
  }

  void WatchLinks() {
    WatchNats(*requests_, "requests", kTarget, *metrics_, [] {});
    if (events_) {
      WatchNats(*events_, "events", kTarget, *metrics_, [this] {
        if (event_side_) {
          event_side_->SayAllAgain();
        }
        if (durable_) {
          durable_->Resend();
        }
      });
    }
  }

  void GrantLease() {
    if (shutdown_) {
      return;
    }
    discovery_->OnLease(
        [this](transport::LeaseState state, const std::string& text) { OnLease(state, text); });
    const auto started = [this](const Result<std::uint64_t>& lease) {
      if (shutdown_) {
        return;
      }
      if (!lease) {
        FailStart(lease.error());
        return;
      }
      Serve(*lease);
    };
    StartWithBrokers(*discovery_, config_.endpoint.ns, event_wire_.brokers, started);
  }

  void Serve(std::uint64_t lease_id) {
    workers_ = MakeIdentities(config_, lease_id);
    if (auto open = OpenEventSide(); !open) {
      FailStart(open.error());
      return;
    }
    ingress_ = std::make_unique<Ingress>(*requests_, *metrics_, clock_);
    RequestPath::Options options;
    options.rules.limits = config_.limits;
    options.rules.dp_size = config_.dp_size;
    options.rules.replay = replay_table_.get();
    options.open_streams_max = static_cast<std::size_t>(config_.options.open_streams_max);
    handoff_engine_ = engine_->OpenHandoffs([this](Task task) { loop_->Post(std::move(task)); });
    options.handoff_engine = handoff_engine_;
    options.rules.role = config_.args.engine.worker_type;
    options.rules.engine_type = config_.args.engine.engine_type;
    auto handoffs =
        OpenHandoffs(config_, bootstrap_host_, *loop_, clock_, *handoff_engine_, workers_);
    if (!handoffs) {
      FailStart(handoffs.error());
      return;
    }
    handoffs_ = std::move(*handoffs);
    options.handoffs = handoffs_.get();
    path_ = std::make_unique<RequestPath>(
        *loop_, *ingress_, *engine_, *event_side_, *metrics_, *native_, clock_, options);
    for (std::uint32_t i = 0; i < workers_.size(); ++i) {
      path_->AddWorker(workers_[i].subject, i * config_.dp_size, probes_[i]);
    }
    ServeQueries();
    ServeControl();
    if (auto running = engine_->Start(control_->Sink()); !running) {
      FailStart(running.error());
      return;
    }
    startup_timer_->After(std::chrono::duration_cast<Nanoseconds>(config_.args.engine.startup_time),
                          [this] { health_.engine_started = true; });
    ServeServiceInfo(*requests_,
                     NewServiceIdentity(
                         config_.endpoint.ns, config_.endpoint.component, profile_.service_version),
                     [this] { return ingress_->counts(); });
    subscriptions_.push_back(Listen(RequestSubject(workers_)));
    requests_->Flush(kSubscribeLimit, [this](const Status& effective) {
      if (shutdown_) {
        return;
      }
      if (!effective) {
        FailStart(effective.error());
        return;
      }
      Register();
    });
  }

  Status OpenEventSide() {
    if (config_.options.event_plane == "zmq" || !config_.engine_ports.empty()) {
      zmq_ = transport::ZmqContext::New();
    }
    plane_ = OpenEventPlane(*loop_, event_wire_, events_.get(), zmq_);
    EventSide::Options options;
    options.engine_ports = config_.engine_ports;
    options.zmq = zmq_;
    options.block_size = engine_->traits().block_size;
    options.kv_events = engine_->traits().kv_events;
    options.forward_passes = config_.options.forward_pass_metrics;
    options.computed_prompts = config_.args.engine.worker_type != mocker::WorkerType::kPrefill;
    options.durable = durable_.get();
    options.batching.window = std::chrono::milliseconds(config_.options.kv_batching_window_ms);
    options.batching.blocks_max = static_cast<std::size_t>(config_.options.kv_batching_blocks);
    options.batching.merge_units = profile_.merges_units;
    const auto& name = config_.endpoint;
    event_side_ =
        std::make_unique<EventSide>(*loop_, *plane_, clock_, *metrics_, profile_, name, options);
    UNDERSTUDY_TRY_STATUS(event_side_->Open());
    for (const auto& worker : workers_) {
      auto& probe = metrics_->AddEndpoint(
          name.ns, name.component, name.endpoint, transport::HexId(worker.instance_id));
      probes_.push_back(&probe);
      event_side_->AddWorker(worker.instance_id, config_.dp_size, &probe);
    }
    return {};
  }

  transport::NatsClient::SubscriptionId Listen(const std::string& subject) {
    return requests_->Subscribe(subject, "q", [this](const transport::NatsMessage& message) {
      ingress_->OnRequest(message);
    });
  }

  void ServeQueries() {
    const auto& sources = event_side_->sources();
    query_endpoints_ = MakeQueryEndpoints(config_, profile_, sources);
    queries_ = std::make_unique<QueryServer>(*loop_, *ingress_, event_side_->relay(), *metrics_);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      queries_->Add(query_endpoints_[i].instance.transport_value,
                    sources[i].rank,
                    profile_.wires[sources[i].wire].answers);
    }
    for (const auto& subject : QuerySubjects(query_endpoints_)) {
      query_subscriptions_.push_back(Listen(subject));
    }
  }

  void ServeControl() {
    const ControlSide::Parts parts{*loop_,
                                   *ingress_,
                                   *engine_,
                                   handoff_engine_,
                                   *discovery_,
                                   *path_,
                                   config_,
                                   profile_,
                                   workers_};
    control_ = std::make_unique<ControlSide>(parts, [this](std::size_t serving) {
      health_.drained = serving == 0;
      metrics_->Registered(health_.visible());
    });
    for (const auto& subject : control_->Subjects()) {
      query_subscriptions_.push_back(Listen(subject));
    }
  }

  void Register() {
    auto registration = MakeRegistration(
        config_, profile_, card_, workers_, event_side_->ChannelRecords(), query_endpoints_);
    control_->AddRecords(registration);
    instance_keys_ = registration.instance_keys;
    discovery_->Put(std::move(registration.records), [this](const Status& written) {
      if (shutdown_) {
        return;
      }
      if (!written) {
        FailStart(written.error());
        return;
      }
      health_.registered = true;
      metrics_->Registered(true);
      event_side_->Start();
      control_->Registered();
      if (handoffs_) {
        handoffs_->Serve();
      }
      Ready();
    });
  }

  void Ready() {
    std::string ids;
    for (const auto& worker : workers_) {
      ids += (ids.empty() ? "" : ",") + transport::HexId(worker.instance_id);
    }
    const auto status = status_ ? status_->address() : std::string("off");
    std::printf(
        "ready instance=%s endpoint=%s request_plane=%s event_plane=%s discovery=%s status=%s\n",
        ids.c_str(),
        config_.endpoint.Dotted().c_str(),
        config_.options.request_plane.c_str(),
        config_.options.event_plane.c_str(),
        config_.options.discovery_backend.c_str(),
        status.c_str());
    std::fflush(stdout);
    Log(LogLevel::kInfo,
        kTarget,
        "registered",
        {{"workers", std::to_string(workers_.size())},
         {"model", card_.display_name},
         {"start_ms",
          std::to_string(
              std::chrono::duration_cast<std::chrono::milliseconds>(Uptime()).count())}});
  }

  void OnLease(transport::LeaseState state, const std::string& text) {
    using transport::LeaseState;
    lease_text_ = text;
    if (state == LeaseState::kLost || state == LeaseState::kRestored) {
      health_.registered = state == LeaseState::kRestored && !workers_.empty();
      metrics_->Registered(health_.visible());
    }
    LogLease(state, text, kTarget);
    if (state == LeaseState::kLost) {
      metrics_->LeaseLost();
      if (config_.options.on_lease_loss == "exit" && !shutdown_) {
        Stop("lease lost", kExitLeaseLost);
      }
    }
  }

  void FailStart(const Error& error) {
    if (shutdown_) {
      return;
    }
    Log(LogLevel::kError, kTarget, error.message);
    Stop("start failed", kExitStartFailed);
  }

  void Stop(const char* why, int exit_code) {
    if (shutdown_) {
      shutdown_->Force();
      return;
    }
    Log(LogLevel::kInfo, kTarget, why);
    exit_code_ = exit_code;
    health_.draining = true;
    if (control_) {
      control_->Stopping();
    }
    Shutdown::Parts parts;
    parts.discovery = discovery_.get();
    parts.requests = requests_.get();
    parts.events = events_.get();
    parts.path = path_.get();
    parts.handoffs = handoffs_.get();
    parts.event_side = event_side_.get();
    parts.queries = queries_.get();
    parts.instance_keys = instance_keys_;
    parts.subscriptions = subscriptions_;
    parts.query_subscriptions = query_subscriptions_;
    parts.grace = std::chrono::milliseconds(config_.options.drain_grace_ms);
    parts.limit = config_.drain_limit;
    shutdown_ = std::make_unique<Shutdown>(*loop_, std::move(parts), [this] { loop_->Stop(); });
    shutdown_->Begin();
  }

  void Dump() {
    if (!path_ || dumping_) {
      return;
    }
    dumping_ = true;
    dump_thread_ = std::jthread([this] {  // the engine answers between passes: not on the loop
      loop_->Post([this, engine = engine_->DumpState()] {
        dumping_ = false;
        DumpInput input;
        input.endpoint = config_.endpoint.Dotted();
        for (const auto& worker : workers_) {
          input.instances.push_back(transport::HexId(worker.instance_id));
        }
        input.health = health_;
        input.uptime_s = std::chrono::duration<double>(Uptime()).count();
        input.nats_connected = requests_->connected();
        input.lease = lease_text_;
        input.streams = path_->Streams();
        input.engine_json = engine;
        input.handoffs_json = handoffs_ ? handoffs_->DumpState() : "null";
        std::fprintf(stderr, "state %s\n", StateDump(input).c_str());
      });
    });
  }

  [[nodiscard]] Nanoseconds Uptime() const { return clock_.Now() - started_; }

  WorkerConfig config_;
  const Environment& env_;
  SteadyClock clock_;
  std::unique_ptr<transport::Loop> loop_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<NativeMetrics> native_;
  TimePoint started_;
  std::unique_ptr<transport::Timer> startup_timer_;
  ReleaseProfile profile_;
  transport::ModelCard card_;
  HealthState health_;
  std::unique_ptr<engine::Engine> engine_;
  engine::Handoffs* handoff_engine_ = nullptr;  ///< of engine_; may be null
  std::unique_ptr<ReplayTable> replay_table_;
  std::unique_ptr<transport::HttpServer> status_;
  std::unique_ptr<transport::Discovery> discovery_;
  std::unique_ptr<transport::NatsClient> requests_, events_;
  EventWire event_wire_;
  std::string bootstrap_host_;
  std::shared_ptr<transport::ZmqContext> zmq_;
  std::unique_ptr<transport::EventPlane> plane_;
  std::unique_ptr<transport::DurableEvents> durable_;
  std::unique_ptr<EventSide> event_side_;
  std::unique_ptr<Ingress> ingress_;
  std::unique_ptr<HandoffSide> handoffs_;
  std::unique_ptr<RequestPath> path_;
  std::unique_ptr<QueryServer> queries_;
  std::unique_ptr<ControlSide> control_;
  std::vector<EndpointProbe*> probes_;
  std::vector<QueryEndpoint> query_endpoints_;
  std::vector<WorkerIdentity> workers_;
  std::vector<std::string> instance_keys_;
  std::vector<transport::NatsClient::SubscriptionId> subscriptions_, query_subscriptions_;
  std::string lease_text_;
  std::unique_ptr<Shutdown> shutdown_;
  int exit_code_ = 0;
  bool dumping_ = false;
  std::jthread dump_thread_;  // last: joins before what it touches goes
};

}  // namespace

int RunWorker(WorkerConfig config, const Environment& env) {
  std::signal(SIGPIPE, SIG_IGN);
  return App(std::move(config), env).Run();
}

}  // namespace understudy::worker
