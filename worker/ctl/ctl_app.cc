#include "worker/ctl/ctl_app.h"

#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/call/exit_codes.h"
#include "worker/call/local_address.h"
#include "worker/ctl/control_client.h"
#include "worker/ctl/printer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace understudy::worker {
namespace {

constexpr Nanoseconds kCloseLimit = std::chrono::seconds(1);

class CtlApp {
 public:
  CtlApp(const CtlPlan& plan, const Environment& env)
      : plan_(plan), env_(env), loop_(transport::Loop::New()) {}

  int Run() {
    nats_options_ = NatsFromEnvironment(env_);
    nats_options_.name = "understudy ctl";
    auto host = CallbackHost(plan_.listen_host, nats_options_.url);
    if (!host) {
      return Say(kExitNothing, host.error().message);
    }
    host_ = *host;
    loop_->OnSignal(SIGINT, [this] { Interrupt(); });
    loop_->OnSignal(SIGTERM, [this] { Interrupt(); });
    loop_->Post([this] { Find(); });
    loop_->Run();
    return exit_code_;
  }

 private:
  static int Say(int code, const std::string& text) {
    std::fprintf(stderr, "understudy ctl: error: %s\n", text.c_str());
    return code;
  }
  void Find() {
    auto discovery = OpenDiscovery(*loop_, plan_.discovery_backend, env_);
    if (!discovery) {
      Stop(Say(kExitUsage, discovery.error().message));
      return;
    }
    discovery_ = std::move(*discovery);
    discovery_->List("v1/instances/" + plan_.endpoint.ns + "/",
                     [this](const Result<std::vector<transport::Record>>& instances) {
                       if (!instances) {
                         Stop(Say(ExitCodeOf(instances.error()), instances.error().message));
                       } else {
                         Found(JoinTargets(*instances, {}));
                       }
                     });
  }

  void Found(const FoundTargets& found) {
    if (stopping_) {
      return;
    }
    auto picked = PickTargets(found, plan_.endpoint, plan_.instance);
    if (!picked) {
      Stop(Say(kExitNothing, picked.error().message));
      return;
    }
    if (picked->size() > 1 && !plan_.all) {
      std::string ids;
      for (const auto& target : *picked) {
        (ids += ids.empty() ? "" : ", ") += transport::HexId(target.instance.instance_id);
      }
      Stop(
          Say(kExitUsage,
              plan_.endpoint.Dotted() + " has several instances: choose one with --instance (" +
                  ids + ")" +
                  (plan_.command.op < transport::ControlOp::kRegisterHandoff ? ", or --all" : "")));
      return;
    }
    if (auto reachable = CheckRequestPlane(*picked); !reachable) {
      Stop(Say(kExitFailed, reachable.error().message));
      return;
    }
    Connect(std::move(*picked));
  }

  void Connect(std::vector<CallTarget> targets) {
    nats_ = transport::NatsClient::New(*loop_, nats_options_);
    nats_->Start([this, targets = std::move(targets)](const Status& connected) mutable {
      if (stopping_) {
        return;
      }
      if (!connected) {
        Stop(Say(ExitCodeOf(connected.error()), connected.error().message));
        return;
      }
      Go(std::move(targets));
    });
  }

  void Go(std::vector<CallTarget> targets) {
    ControlClient::Report report;
    report.on_item = [this](const CallTarget& target, const transport::ControlItem& item) {
      Print(target.instance.instance_id, item);
    };
    report.on_end = [this](const CallTarget& target,
                           ControlClient::End end,
                           const std::string& text) { Ended(target, end, text); };
    report.on_note = [](const std::string& text) {
      std::fprintf(stderr, "understudy ctl: note: %s\n", text.c_str());
    };
    report.on_all_done = [this] { Stop(exit_code_); };
    client_ = std::make_unique<ControlClient>(
        *loop_, *nats_, plan_, std::move(targets), std::move(report));
    if (auto listening = client_->Start(host_); !listening) {
      Stop(Say(kExitUsage, "--listen-host: " + listening.error().message));
    }
  }

  void Print(std::uint64_t instance, const transport::ControlItem& item) {
    const auto line = plan_.json ? ControlItemJson(instance, plan_.command, item)
                                 : DescribeControlItem(instance, plan_.command, item);
    std::fprintf(stdout, "%s\n", line.c_str());
    std::fflush(stdout);  // readable as it comes, also through a pipe
    const bool refused = std::any_of(
        item.ranks.begin(), item.ranks.end(), [](const auto& rank) { return rank.refused; });
    if (refused) {
      exit_code_ = kExitFailed;
    }
  }

  void Ended(const CallTarget& target, ControlClient::End end, const std::string& text) {
    using End = ControlClient::End;
    if (end == End::kDone || (end == End::kInterrupted && plan_.endless)) {
      return;
    }
    Say(0, transport::HexId(target.instance.instance_id) + ": " + text);
    if (end != End::kTimedOut) {
      exit_code_ = kExitFailed;
    } else if (exit_code_ == 0) {
      exit_code_ = kExitNothing;
    }
  }

  void Interrupt() {
    if (stopping_) {
      loop_->Stop();  // the second one does not wait
    } else if (client_) {
      client_->Interrupt();
    } else {
      Stop(kExitFailed);
    }
  }

  /// Closes what is open, then ends Run. Posted: the callers are often callbacks of what goes away.
  void Stop(int code) {
    if (std::exchange(stopping_, true)) {
      return;
    }
    exit_code_ = code;
    loop_->Post([this] {
      client_.reset();
      if (!nats_) {
        loop_->Stop();
        return;
      }
      nats_->Close(kCloseLimit, [this] { loop_->Stop(); });
    });
  }

  const CtlPlan& plan_;
  const Environment& env_;
  std::unique_ptr<transport::Loop> loop_;
  transport::NatsOptions nats_options_;
  std::string host_;
  std::unique_ptr<transport::Discovery> discovery_;
  std::unique_ptr<transport::NatsClient> nats_;
  std::unique_ptr<ControlClient> client_;
  bool stopping_ = false;
  int exit_code_ = 0;
};

}  // namespace

int RunCtl(const CtlPlan& plan, const Environment& env) {
  std::signal(SIGPIPE, SIG_IGN);
  return CtlApp(plan, env).Run();
}

}  // namespace understudy::worker
