#include "worker/call/call_app.h"

#include "understudy/base/clock.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/call/caller.h"
#include "worker/call/exit_codes.h"
#include "worker/call/local_address.h"
#include "worker/call/printer.h"
#include "worker/call/zmq_watch.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr Nanoseconds kSubscribeLimit = std::chrono::seconds(5);
constexpr Nanoseconds kCloseLimit = std::chrono::seconds(1);
constexpr Nanoseconds kLastEvents =
    std::chrono::milliseconds(300);  // load metrics of the last request still come

class CallApp {
 public:
  CallApp(const CallPlan& plan, const Environment& env)
      : plan_(plan),
        env_(env),
        loop_(transport::Loop::New()),
        printer_(plan.json, plan.requests > 1, plan.quiet),
        watch_timer_(loop_->NewTimer()) {}

  int Run() {
    nats_options_ = NatsFromEnvironment(env_);
    nats_options_.name = "understudy call";
    if (plan_.requests > 0) {
      auto host = CallbackHost(plan_.listen_host, nats_options_.url);
      if (!host) {
        return Say(kExitNothing, host.error().message);
      }
      host_ = *host;
    }
    loop_->OnSignal(SIGINT, [this] { Interrupt(); });
    loop_->OnSignal(SIGTERM, [this] { Interrupt(); });
    loop_->Post([this] { Begin(); });
    loop_->Run();
    return exit_code_;
  }

 private:
  static int Say(int code, const std::string& text) {
    std::fprintf(stderr, "understudy call: error: %s\n", text.c_str());
    return code;
  }

  void Begin() {
    if (plan_.requests == 0 && !plan_.list && !plan_.zmq_events) {
      Connect();
      return;
    }
    auto discovery = OpenDiscovery(*loop_, plan_.discovery_backend, env_);
    if (!discovery) {
      Stop(Say(kExitUsage, discovery.error().message));
      return;
    }
    discovery_ = std::move(*discovery);
    if (plan_.requests == 0 && !plan_.list) {
      WatchZmq();
      return;
    }
    auto place = plan_.endpoint.ns + "/";
    if (plan_.list && !plan_.whole_namespace) {
      place += plan_.endpoint.component + "/" + plan_.endpoint.endpoint + "/";
    }
    discovery_->List(
        "v1/instances/" + place,
        [this, place](const Result<std::vector<transport::Record>>& instances) {
          if (!instances) {
            Stop(Say(ExitCodeOf(instances.error()), instances.error().message));
            return;
          }
          discovery_->List(
              "v1/mdc/" + place,
              [this, instances = *instances](const Result<std::vector<transport::Record>>& models) {
                if (!models) {
                  Stop(Say(ExitCodeOf(models.error()), models.error().message));
                  return;
                }
                Found(JoinTargets(instances, *models));
              });
        });
  }

  void Found(const FoundTargets& found) {
    if (stopping_) {
      return;
    }
    if (plan_.list) {
      List(found);
      return;
    }
    auto picked = PickTargets(found, plan_.endpoint, plan_.instance);
    if (!picked) {
      Stop(Say(kExitNothing, picked.error().message));
      return;
    }
    if (auto reachable = CheckRequestPlane(*picked); !reachable) {
      Stop(Say(kExitFailed, reachable.error().message));
      return;
    }
    targets_ = std::move(*picked);
    Connect();
  }

  void List(const FoundTargets& found) {
    FoundTargets shown = found;
    if (plan_.instance) {
      std::erase_if(shown.targets, [this](const CallTarget& t) {
        return t.instance.instance_id != *plan_.instance;
      });
    }
    printer_.Targets(shown);
    if (!shown.targets.empty()) {
      Stop(0);
      return;
    }
    const auto where =
        plan_.whole_namespace ? "namespace " + plan_.endpoint.ns : plan_.endpoint.Dotted();
    Stop(Say(kExitNothing,
             "no instance " +
                 (plan_.instance ? transport::HexId(*plan_.instance) + " " : std::string()) +
                 "in " + where));
  }

  void Connect() {
    nats_ = transport::NatsClient::New(*loop_, nats_options_);
    nats_->OnEvent([this](transport::NatsClient::Event event, const std::string& text) {
      if (event == transport::NatsClient::Event::kDropped) {
        printer_.Note("NATS connection lost: " + text);
      }
    });
    nats_->Start([this](const Status& connected) {
      if (stopping_) {
        return;
      }
      if (!connected) {
        Stop(Say(ExitCodeOf(connected.error()), connected.error().message));
        return;
      }
      if (plan_.watch && !plan_.zmq_events) {
        nats_->Subscribe("namespace." + plan_.endpoint.ns + ".>",
                         {},
                         [this](const transport::NatsMessage& message) {
                           printer_.Event(message.subject,
                                          {reinterpret_cast<const char*>(message.payload.data()),
                                           message.payload.size()});
                         });
      }
      nats_->Flush(kSubscribeLimit, [this](const Status& effective) {
        if (stopping_) {
          return;
        }
        if (!effective) {
          Stop(Say(kExitNothing, effective.error().message));
        } else if (plan_.watch && plan_.zmq_events) {
          WatchZmq();
        } else {
          Go();
        }
      });
    });
  }

  void WatchZmq() {
    watch_ = std::make_unique<ZmqWatch>(*loop_,
                                        *discovery_,
                                        plan_.endpoint.ns,
                                        plan_.zmq_brokers,
                                        [this](std::string_view topic, std::string_view envelope) {
                                          printer_.Event(topic, envelope);
                                        });
    const auto started = watch_->Start([this](const Result<std::size_t>& found) {
      if (stopping_) {
        return;
      }
      if (!found) {
        Stop(Say(ExitCodeOf(found.error()), found.error().message));
        return;
      }
      printer_.Note(std::to_string(*found) +
                    (plan_.zmq_brokers.used() ? " brokers of events" : " publishers of events") +
                    " so far");
      Go();
    });
    if (!started) {
      Stop(Say(kExitNothing, started.error().message));
    }
  }

  void Go() {
    if (plan_.watch) {
      const std::string what = plan_.zmq_events ? "the events of namespace " + plan_.endpoint.ns
                                                : "namespace." + plan_.endpoint.ns + ".>";
      printer_.Note("watching " + what + " until " +
                    (plan_.watch_for      ? "the time is over"
                     : plan_.requests > 0 ? "the requests have ended"
                                          : "Ctrl-C"));
    }
    if (plan_.watch_for) {
      watch_timer_->After(*plan_.watch_for, [this] {
        watch_over_ = true;
        MaybeEnd();
      });
    }
    if (plan_.requests == 0) {
      return;
    }
    Caller::Report report;
    report.on_sent = [this](const CallOutcome& outcome, const CallTarget& target) {
      printer_.Sent(outcome, target);
    };
    report.on_token = [this](const CallOutcome& outcome, std::uint32_t token) {
      printer_.Token(outcome, token);
    };
    report.on_end = [this](const CallOutcome& outcome) { printer_.Ended(outcome); };
    report.on_note = [this](const std::string& text) { printer_.Note(text); };
    report.on_all_done = [this] { AllDone(); };
    caller_ = std::make_unique<Caller>(
        *loop_, *nats_, clock_, plan_, std::move(targets_), std::move(report));
    started_ = clock_.Now();
    if (auto listening = caller_->Start(host_); !listening) {
      Stop(Say(kExitUsage, "--listen-host: " + listening.error().message));
    }
  }

  void AllDone() {
    requests_done_ = true;
    printer_.Total(caller_->outcomes(),
                   std::chrono::duration<double, std::milli>(clock_.Now() - started_).count());
    exit_code_ = ExitCodeOf(caller_->outcomes());
    if (plan_.watch && !plan_.watch_for && !stopping_) {
      watch_timer_->After(kLastEvents, [this] {
        watch_over_ = true;
        MaybeEnd();
      });
      return;
    }
    MaybeEnd();
  }

  void MaybeEnd() {
    const bool requests_over = plan_.requests == 0 || requests_done_;
    const bool watch_over = !plan_.watch || watch_over_;
    if (requests_over && watch_over) {
      Stop(exit_code_);
    }
  }

  void Interrupt() {
    if (stopping_) {
      loop_->Stop();  // the second one does not wait
      return;
    }
    const bool watching_only = plan_.requests == 0 && (watch_ || (nats_ && nats_->connected()));
    if (caller_ && !requests_done_) {
      stopping_ = true;
      caller_->Interrupt();
      stopping_ = false;
    }
    Stop(requests_done_ || watching_only ? exit_code_ : kExitFailed);
  }

  /// Closes what is open, then ends Run. Posted: the callers are often callbacks of what goes away.
  void Stop(int code) {
    if (std::exchange(stopping_, true)) {
      return;
    }
    exit_code_ = code;
    watch_timer_->Cancel();
    loop_->Post([this] {
      caller_.reset();
      watch_.reset();
      if (!nats_) {
        loop_->Stop();
        return;
      }
      nats_->Close(kCloseLimit, [this] { loop_->Stop(); });
    });
  }

  const CallPlan& plan_;
  const Environment& env_;
  SteadyClock clock_;
  std::unique_ptr<transport::Loop> loop_;
  CallPrinter printer_;
  std::unique_ptr<transport::Timer> watch_timer_;
  transport::NatsOptions nats_options_;
  std::string host_;
  std::unique_ptr<transport::Discovery> discovery_;
  std::unique_ptr<ZmqWatch> watch_;
  std::unique_ptr<transport::NatsClient> nats_;
  std::vector<CallTarget> targets_;
  std::unique_ptr<Caller> caller_;
  TimePoint started_{};
  bool requests_done_ = false, watch_over_ = false, stopping_ = false;
  int exit_code_ = 0;
};

}  // namespace

int RunCall(const CallPlan& plan, const Environment& env) {
  std::signal(SIGPIPE, SIG_IGN);
  return CallApp(plan, env).Run();
}

}  // namespace understudy::worker
