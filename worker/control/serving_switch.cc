#include "worker/control/serving_switch.h"

#include "worker/log/log.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.control";

}  // namespace

void ServingSwitch::Registered(std::vector<transport::Record> instances) {
  for (auto& instance : instances) {
    workers_.emplace_back().instance = std::move(instance);
  }
}

void ServingSwitch::Ask(std::uint32_t worker, bool serve, Done done) {
  if (closed_) {
    done(Fail(Errc::kUnavailable, "the worker is shutting down"));
  } else if (worker >= workers_.size()) {
    done(Fail(Errc::kUnavailable, "the worker is not registered yet"));
  } else {
    workers_[worker].wishes.push_back({serve, std::move(done)});
    Next(worker);
  }
}

void ServingSwitch::Next(std::uint32_t worker) {
  Worker& one = workers_[worker];
  while (!one.busy && !one.wishes.empty()) {
    const bool serve = one.wishes.front().serve;
    if (serve == one.serving) {
      const Wish wish = std::move(one.wishes.front());
      one.wishes.pop_front();
      wish.done(false);
      continue;
    }
    one.busy = true;
    auto answered = [this, worker, alive = std::weak_ptr(alive_)](const Status& status) {
      if (!alive.expired()) {
        Changed(worker, status);
      }
    };
    if (serve) {
      discovery_.Put({one.instance}, std::move(answered));
    } else {
      discovery_.Delete({one.instance.key}, std::move(answered));
    }
  }
}

void ServingSwitch::Changed(std::uint32_t worker, const Status& status) {
  Worker& one = workers_[worker];
  const Wish wish = std::move(one.wishes.front());
  one.wishes.pop_front();
  one.busy = false;
  if (status) {
    one.serving = wish.serve;
    Log(LogLevel::kInfo,
        kTarget,
        wish.serve ? "resumed by a controller: back in discovery"
                   : "drained by a controller: out of discovery, requests go on",
        {{"instance", one.instance.key}});
    listener_(static_cast<std::size_t>(std::count_if(
        workers_.begin(), workers_.end(), [](const Worker& other) { return other.serving; })));
    wish.done(true);
  } else {
    wish.done(tl::make_unexpected(status.error()));
  }
  Next(worker);
}

}  // namespace understudy::worker
