// The commands of a registration.
#include "plugin/mocker/handoff/boundary_core.h"

namespace understudy::mocker::handoff {

namespace {

using engine::HandoffOutcome;
using Done = engine::HandoffControl::Done;

struct Call {
  enum class State : std::uint8_t { kWaiting, kSent, kOver };
  Command::Kind kind = Command::Kind::kReleaseSource;
  std::shared_ptr<Route> route;
  std::shared_ptr<engine::PreparedRequest> request;
  Done done;
  State state = State::kWaiting;
  std::uint64_t ticket = 0;
  bool heard = true;       ///< somebody waits for the outcome
  bool holds_lock = true;  ///< from its turn on

  [[nodiscard]] bool Submits() const { return Command::Submits(kind); }
};
using CallPtr = std::shared_ptr<Call>;

void Tell(const CallPtr& call, Result<HandoffOutcome> result) {
  call->state = Call::State::kOver;
  call->request.reset();
  (*call->route->post)([call, result = std::move(result)]() mutable {
    if (call->heard) {
      const Done done = std::exchange(call->done, nullptr);
      done(std::move(result));
    }
  });
}

void Over(const CallPtr& call, Result<HandoffOutcome> result) {
  Tell(call, std::move(result));
  if (std::exchange(call->holds_lock, false)) {
    call->route->lock.Release();
  }
}

bool Accepts(Command::Kind kind, HandoffOutcome outcome) {
  return outcome == HandoffOutcome::kApplied ||
         (outcome == HandoffOutcome::kNoop && kind != Command::Kind::kActivateDestination);
}

void Submit(const CallPtr& call, BoundaryCore& core) {
  if (core.Cancelled()) {
    Over(call, Fail(Errc::kUnavailable, kNotRunning));
    return;
  }
  auto consumed = Consume(core, call->request.get());
  if (!consumed) {
    Over(call, tl::make_unexpected(std::move(consumed).error()));
    return;
  }
  const auto request = consumed->route;
  const auto destination =
      call->kind == Command::Kind::kReserveDestination ? call->route : std::shared_ptr<Route>();
  call->state = Call::State::kSent;
  const Status sent = core.Send(call->kind,
                                call->route->id,
                                std::move(consumed->request),
                                [call, request, destination, &core](auto reply) {
                                  Over(call, core.Submitted(request, destination, reply));
                                });
  if (!sent) {
    core.CloseRequest(request, true);
    Over(call, tl::make_unexpected(sent.error()));
  }
}

void Ask(const CallPtr& call, BoundaryCore& core) {
  if (core.Cancelled()) {
    Over(call, Fail(Errc::kUnavailable, kNotRunning));
    return;
  }
  call->state = Call::State::kSent;
  const Status sent =
      core.Send(call->kind, call->route->id, {}, [call](Result<HandoffOutcome> reply) {
        if (reply && !Accepts(call->kind, *reply)) {
          reply = Fail(Errc::kInternal,
                       "unexpected scheduler handoff result for " + DebugText(call->route->id) +
                           ": " + NameOf(*reply));
        }
        Over(call, std::move(reply));
      });
  if (!sent) {
    Over(call, tl::make_unexpected(sent.error()));
  }
}

/// Its turn has come.
void Start(const CallPtr& call) {
  const auto core = call->route->core.lock();
  if (!core) {
    Over(call, Fail(Errc::kUnavailable, kEngineGone));
    return;
  }
  if (Status current = core->CheckGeneration(*call->route, call->Submits()); !current) {
    Over(call, tl::make_unexpected(std::move(current).error()));
    return;
  }
  if (call->Submits()) {
    Submit(call, *core);
  } else {
    Ask(call, *core);
  }
}

class CallHandle final : public engine::HandoffCall {
 public:
  explicit CallHandle(CallPtr call) : call_(std::move(call)) {}
  ~CallHandle() override {
    call_->heard = false;
    if (call_->state == Call::State::kWaiting) {
      call_->route->lock.Withdraw(call_->ticket);
      call_->request.reset();
    } else if (call_->state == Call::State::kSent && !call_->Submits() &&
               std::exchange(call_->holds_lock, false)) {
      call_->route->lock.Release();
    }
  }
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;

 private:
  CallPtr call_;
};

class Control final : public engine::HandoffControl {
 public:
  explicit Control(std::shared_ptr<Route> route) : route_(std::move(route)) {}

  [[nodiscard]] engine::HandoffId handoff_id() const override { return route_->id; }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> SubmitPrefill(
      std::shared_ptr<engine::PreparedRequest> request, Done done) override {
    return Begin(Command::Kind::kSubmitPrefill, std::move(request), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ReserveDestination(
      std::shared_ptr<engine::PreparedRequest> request, Done done) override {
    return Begin(Command::Kind::kReserveDestination, std::move(request), std::move(done));
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ReleaseSource(Done done) override {
    return Begin(Command::Kind::kReleaseSource, nullptr, std::move(done));
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> CancelSource(Done done) override {
    return Begin(Command::Kind::kCancelSource, nullptr, std::move(done));
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ActivateDestination(Done done) override {
    return Begin(Command::Kind::kActivateDestination, nullptr, std::move(done));
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> CancelDestination(Done done) override {
    return Begin(Command::Kind::kCancelDestination, nullptr, std::move(done));
  }

 private:
  std::unique_ptr<engine::HandoffCall> Begin(Command::Kind kind,
                                             std::shared_ptr<engine::PreparedRequest> request,
                                             Done done) {
    auto call = std::make_shared<Call>();
    call->kind = kind;
    call->route = route_;
    call->request = std::move(request);
    call->done = std::move(done);
    if (route_->lock.waiting() >= kCallsWaitingMax) {
      if (const auto core = route_->core.lock()) {
        ++core->counts().calls_refused_total;
      }
      call->holds_lock = false;
      Tell(call,
           Fail(Errc::kOverloaded,
                "handoff " + DebugText(route_->id) + " has too many commands waiting"));
    } else {
      call->ticket = route_->lock.Enter([call] { Start(call); });
    }
    return std::make_unique<CallHandle>(std::move(call));
  }

  std::shared_ptr<Route> route_;
};

}  // namespace

std::shared_ptr<engine::HandoffControl> MakeControl(std::shared_ptr<Route> route) {
  return std::make_shared<Control>(std::move(route));
}

}  // namespace understudy::mocker::handoff
