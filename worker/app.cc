#include "worker/app.h"

#include "understudy/base/clock.h"
#include "understudy/mocker/mocker_engine.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/http_server.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/config/release_profile.h"
#include "worker/lifecycle/health.h"
#include "worker/lifecycle/shutdown.h"
#include "worker/lifecycle/state_dump.h"
#include "worker/load_metrics/load_publisher.h"
#include "worker/log/log.h"
#include "worker/metrics/metrics.h"
#include "worker/registration/registration.h"
#include "worker/request_path/request_path.h"
#include "worker/request_path/service_info.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.app";
constexpr Nanoseconds kSubscribeLimit = std::chrono::seconds(5);
constexpr int kExitStartFailed = 1;
constexpr int kExitLeaseLost = 3;

std::uint64_t RandomU64() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Result<std::unique_ptr<engine::Engine>> MakeEngine(const WorkerConfig& config, const Clock& clock) {
  const auto& o = config.options;
  mocker::MockerOptions options;
  options.rank_count = config.workers * config.dp_size;
  options.num_gpu_blocks = static_cast<std::uint64_t>(o.num_gpu_blocks);
  options.block_size = config.block_size;
  options.max_num_seqs = static_cast<std::uint32_t>(o.max_num_seqs);
  options.max_num_batched_tokens = static_cast<std::uint64_t>(o.max_num_batched_tokens);
  options.enable_prefix_caching = o.enable_prefix_caching;
  options.enable_chunked_prefill = o.enable_chunked_prefill;
  options.preemption_mode =
      o.preemption_mode == "fifo" ? mocker::PreemptionMode::kFifo : mocker::PreemptionMode::kLifo;
  options.speedup_ratio = o.speedup_ratio;
  options.decode_speedup_ratio = o.decode_speedup_ratio;
  options.startup_time = std::chrono::duration<double>(o.startup_time_s.value_or(0));
  options.kv_events = false;
  options.seed = config.seed;
  options.strict_reference = o.strict_reference;
  options.waiting_requests_max = static_cast<std::uint32_t>(o.waiting_requests_max);
  options.thread_count = static_cast<std::uint32_t>(o.engine_threads);
  return mocker::NewMockerEngine(options, clock);
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
    loop_->Post([this] { Start(); });
    loop_->Run();
    if (engine_) {
      engine_->Stop();
    }
    return exit_code_;
  }

 private:
  void Start() {
    auto engine = MakeEngine(config_, clock_);
    if (!engine) {
      FailStart(engine.error());
      return;
    }
    engine_ = std::move(*engine);
    if (auto card = MakeCard(config_); !card) {
      FailStart(card.error());
      return;
    } else {
      card_ = std::move(*card);
    }
    auto profile =
        MakeReleaseProfile(config_.options.dynamo_release, config_.endpoint, RandomU64());
    auto discovery = OpenDiscovery(*loop_, config_.options.discovery_backend, env_);
    if (!profile || !discovery) {
      FailStart(!profile ? profile.error() : discovery.error());
      return;
    }
    profile_ = std::move(*profile);
    ServeStatus();
    ConnectNats(std::move(*discovery));
  }

  void ServeStatus() {
    if (!config_.status_enabled) {
      return;
    }
    auto served = transport::ServeHttp(
        *loop_,
        config_.status_host,
        config_.status_port,
        StatusRoutes(
            config_,
            [this] { return health_; },
            [this] {
              metrics_->NatsMessagesDropped(requests_ ? requests_->messages_dropped() : 0);
              return metrics_->Scrape(std::chrono::duration<double>(Uptime()).count());
            },
            [this] { return Uptime(); }));
    if (!served) {  // as the reference: the worker goes on without its status server
      Log(LogLevel::kError,
          kTarget,
          "status server not started",
          {{"error", served.error().message}});
      return;
    }
    status_ = std::move(*served);
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
    options.name = "understudy events";
    events_ = transport::NatsClient::New(*loop_, options);
    discovery_ = std::move(discovery);
    requests_->Start([this](const Status& connected) {
      if (!connected) {
        FailStart(connected.error());
        return;
      }
      events_->Start([this](const Status& both) {
        if (!both) {
          FailStart(both.error());
          return;
        }
        WatchNats();
        GrantLease();
      });
    });
  }

  void WatchNats() {
    const auto watch = [this](transport::NatsClient& client, const char* name) {
      client.OnEvent(
          [this, name, &client](transport::NatsClient::Event event, const std::string& text) {
            using Event = transport::NatsClient::Event;
            if (event == Event::kDropped) {
              metrics_->NatsDropped();
              Log(LogLevel::kWarn,
                  kTarget,
                  "NATS connection lost, reconnecting",
                  {{"connection", name}, {"reason", text}});
            } else if (event == Event::kConnected) {
              Log(LogLevel::kInfo,
                  kTarget,
                  "NATS reconnected",
                  {{"connection", name}, {"server", text}});
              if (&client == events_.get() && load_) {
                load_->SayAllAgain();
              }
            } else {
              Log(LogLevel::kDebug, kTarget, text, {{"connection", name}});
            }
          });
    };
    watch(*requests_, "requests");
    watch(*events_, "events");
  }

  void GrantLease() {
    if (shutdown_) {
      return;
    }
    discovery_->OnLease(
        [this](transport::LeaseState state, const std::string& text) { OnLease(state, text); });
    discovery_->Start([this](const Result<std::uint64_t>& lease) {
      if (shutdown_) {
        return;
      }
      if (!lease) {
        FailStart(lease.error());
        return;
      }
      Serve(*lease);
    });
  }

  void Serve(std::uint64_t lease_id) {
    workers_ = MakeIdentities(config_, lease_id);
    load_ = std::make_unique<LoadPublisher>(*loop_, *events_, profile_.load_routes, *metrics_);
    RequestPath::Options options;
    options.limits = config_.limits;
    options.open_streams_max = static_cast<std::size_t>(config_.options.open_streams_max);
    options.dp_size = config_.dp_size;
    path_ = std::make_unique<RequestPath>(
        *loop_, *requests_, *engine_, *load_, *metrics_, clock_, options);
    const auto& name = config_.endpoint;
    for (std::uint32_t i = 0; i < workers_.size(); ++i) {
      auto& probe = metrics_->AddEndpoint(
          name.ns, name.component, name.endpoint, transport::HexId(workers_[i].instance_id));
      path_->AddWorker(workers_[i].subject, i * config_.dp_size, &probe);
      load_->AddWorker(workers_[i].instance_id, i * config_.dp_size, config_.dp_size, &probe);
    }
    if (auto running = engine_->Start(*path_); !running) {
      FailStart(running.error());
      return;
    }
    startup_timer_->After(std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(
                              config_.options.startup_time_s.value_or(0))),
                          [this] { health_.engine_started = true; });
    ServeServiceInfo(*requests_,
                     NewServiceIdentity(name.ns, name.component, profile_.service_version),
                     [this] { return path_->counts(); });
    subscriptions_.push_back(requests_->Subscribe(
        RequestSubject(workers_), "q", [this](const transport::NatsMessage& message) {
          path_->OnRequest(message);
        }));
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

  void Register() {
    auto registration = MakeRegistration(config_, profile_, card_, workers_);
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
    switch (state) {
      case LeaseState::kDegraded:
        Log(LogLevel::kWarn,
            kTarget,
            "discovery does not answer, the lease still runs",
            {{"reason", text}});
        break;
      case LeaseState::kLost:
        health_.registered = false;
        metrics_->Registered(false);
        metrics_->LeaseLost();
        Log(LogLevel::kWarn,
            kTarget,
            "lease lost, unregistered until it is granted again",
            {{"reason", text}});
        if (config_.options.on_lease_loss == "exit" && !shutdown_) {
          Stop("lease lost", kExitLeaseLost);
        }
        break;
      case LeaseState::kRestored:
        health_.registered = !workers_.empty();
        metrics_->Registered(health_.registered);
        Log(LogLevel::kInfo, kTarget, "lease restored, registered again", {{"reason", text}});
        break;
      case LeaseState::kHeld:
        Log(LogLevel::kInfo, kTarget, "lease held", {{"reason", text}});
        break;
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
    Shutdown::Parts parts;
    parts.discovery = discovery_.get();
    parts.requests = requests_.get();
    parts.events = events_.get();
    parts.path = path_.get();
    parts.load = load_.get();
    parts.instance_keys = instance_keys_;
    parts.subscriptions = subscriptions_;
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
  TimePoint started_;
  std::unique_ptr<transport::Timer> startup_timer_;
  ReleaseProfile profile_;
  transport::ModelCard card_;
  HealthState health_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<transport::HttpServer> status_;
  std::unique_ptr<transport::Discovery> discovery_;
  std::unique_ptr<transport::NatsClient> requests_, events_;
  std::unique_ptr<LoadPublisher> load_;
  std::unique_ptr<RequestPath> path_;
  std::vector<WorkerIdentity> workers_;
  std::vector<std::string> instance_keys_;
  std::vector<transport::NatsClient::SubscriptionId> subscriptions_;
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
