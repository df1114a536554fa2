#include "worker/lifecycle/shutdown.h"

#include "worker/log/log.h"

#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.lifecycle";
constexpr Nanoseconds kPoll = std::chrono::milliseconds(20);

}  // namespace

Shutdown::Shutdown(transport::Loop& loop, Parts parts, std::function<void()> done)
    : loop_(loop),
      parts_(std::move(parts)),
      done_(std::move(done)),
      timer_(loop.NewTimer()),
      poll_(loop.NewTimer()) {}

void Shutdown::Begin() {
  if (phase_ != Phase::kIdle) {
    return;
  }
  phase_ = Phase::kDeregister;
  if (parts_.discovery == nullptr || parts_.path == nullptr) {
    EndHandoffs();
    return;
  }
  Log(LogLevel::kInfo,
      kTarget,
      "Phase 1: leaving discovery",
      {{"instances", std::to_string(parts_.instance_keys.size())},
       {"inflight_count", std::to_string(parts_.path->running())}});
  timer_->After(kDeleteLimit, [this] { AfterDelete(); });
  parts_.discovery->Delete(parts_.instance_keys, [this](const Status& deleted) {
    if (!deleted) {
      Log(LogLevel::kWarn,
          kTarget,
          "instance records not deleted",
          {{"error", deleted.error().message}});
    }
    AfterDelete();
  });
}

void Shutdown::AfterDelete() {
  if (phase_ != Phase::kDeregister) {
    return;
  }
  phase_ = Phase::kGrace;
  timer_->After(parts_.grace, [this] { Unsubscribe(); });
}

void Shutdown::Unsubscribe() {
  if (phase_ != Phase::kGrace) {
    return;
  }
  phase_ = Phase::kDrain;
  Log(LogLevel::kInfo,
      kTarget,
      "Phase 2: draining",
      {{"inflight_count", std::to_string(parts_.path->running())},
       {"limit_s",
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(parts_.limit).count())}});
  timer_->After(parts_.limit, [this] {
    if (phase_ == Phase::kDrain) {
      Log(LogLevel::kWarn,
          kTarget,
          "drain limit reached, the rest is closed so that frontends migrate it",
          {{"inflight_count", std::to_string(parts_.path->running())}});
      EndHandoffs();
    }
  });
  parts_.path->OnIdle([this] { loop_.Post([this] { CheckDrained(); }); });
  retiring_ = parts_.subscriptions.size();
  for (const auto id : parts_.subscriptions) {  // requests on their way are taken as well
    parts_.requests->Retire(id, [this] {
      --retiring_;
      CheckDrained();
    });
  }
  CheckDrained();
}

void Shutdown::CheckDrained() {
  if (phase_ != Phase::kDrain || retiring_ != 0 || parts_.path->running() != 0) {
    return;
  }
  if (parts_.path->undelivered() != 0) {  // a slow reader has until the drain limit, too
    poll_->After(kPoll, [this] { CheckDrained(); });
    return;
  }
  Log(LogLevel::kInfo, kTarget, "all inflight requests completed");
  AwaitFinishing();
}

void Shutdown::AwaitFinishing() {
  phase_ = Phase::kFinish;
  timer_->After(kFinishLimit, [this] { EndHandoffs(); });
  auto check = std::make_shared<std::function<void()>>();
  *check = [this, weak = std::weak_ptr(check)] {
    if (phase_ != Phase::kFinish) {
      return;
    }
    if (parts_.path->open() == 0) {
      EndHandoffs();
    } else if (auto again = weak.lock()) {
      poll_->After(kPoll, [again] { (*again)(); });
    }
  };
  (*check)();
}

void Shutdown::Force() {
  if (phase_ == Phase::kClose) {
    return;
  }
  Log(LogLevel::kWarn, kTarget, "second signal, closing now");
  if (phase_ == Phase::kHandoffs) {
    Close();
  } else {
    EndHandoffs();
  }
}

void Shutdown::EndHandoffs() {
  if (phase_ >= Phase::kHandoffs) {
    return;
  }
  phase_ = Phase::kHandoffs;
  poll_->Cancel();
  Log(LogLevel::kInfo, kTarget, "Phase 3: closing");
  for (const auto id : parts_.subscriptions) {
    parts_.requests->Unsubscribe(id);
  }
  if (parts_.handoffs == nullptr) {
    Close();
    return;
  }
  timer_->After(kHandoffLimit, [this] {
    Log(LogLevel::kWarn, kTarget, "hand-offs are not over, closing all the same");
    Close();
  });
  parts_.handoffs->Shutdown([this] { Close(); });
}

void Shutdown::Close() {
  if (phase_ == Phase::kClose) {
    return;
  }
  phase_ = Phase::kClose;
  timer_->Cancel();
  poll_->Cancel();
  for (const auto id : parts_.query_subscriptions) {
    parts_.requests->Unsubscribe(id);
  }
  if (parts_.queries != nullptr) {
    parts_.queries->CloseAll();
  }
  if (parts_.path != nullptr) {
    parts_.path->OnIdle(nullptr);
    parts_.path->CloseAll();
  }
  if (parts_.event_side != nullptr) {
    parts_.event_side->Stop();
  }
  if (parts_.discovery == nullptr) {
    CloseNats();
    return;
  }
  parts_.discovery->Close(kRevokeLimit, [this](const Status& closed) {
    if (!closed) {
      Log(LogLevel::kWarn,
          kTarget,
          "lease not revoked, records stay until it expires",
          {{"error", closed.error().message}});
    }
    CloseNats();
  });
}

void Shutdown::CloseNats() {
  closing_ = 1;
  const auto one_less = [this] {
    if (--closing_ == 0) {
      done_();
    }
  };
  for (auto* client : {parts_.requests, parts_.events}) {
    if (client != nullptr) {
      ++closing_;
      client->Close(kDisconnectLimit, one_less);
    }
  }
  loop_.Post(one_less);
}

}  // namespace understudy::worker
