// Requests of hand-offs: named before they are given to the rank, ended once.
#include "plugin/mocker/handoff/boundary_core.h"

namespace understudy::mocker::handoff {

namespace {

using State = RequestRoute::State;
using engine::HandoffOutcome;

class Prepared final : public engine::PreparedRequest {
 public:
  Prepared(const std::shared_ptr<BoundaryCore>& core,
           std::shared_ptr<RequestRoute> route,
           engine::Request request)
      : core_(core), route_(std::move(route)), request_(std::move(request)) {}
  ~Prepared() override {
    const auto core = core_.lock();
    if (core && request_) {
      core->CloseRequest(route_, false);
    }
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  [[nodiscard]] bool Belongs(const BoundaryCore& core) const { return core_.lock().get() == &core; }
  [[nodiscard]] std::optional<Consumed> Take() {
    if (!request_ || route_->state != State::kPrepared) {
      return std::nullopt;
    }
    Consumed consumed{std::move(*request_), route_};
    request_.reset();
    route_->state = State::kSubmitting;
    return consumed;
  }
  [[nodiscard]] bool taken() const { return !request_.has_value(); }

 private:
  const std::weak_ptr<BoundaryCore> core_;
  const std::shared_ptr<RequestRoute> route_;
  std::optional<engine::Request> request_;
};

class Life final : public engine::LiveRequest {
 public:
  Life(const std::shared_ptr<BoundaryCore>& core, std::shared_ptr<RequestRoute> route)
      : core_(core), route_(std::move(route)) {}
  ~Life() override {
    route_->closed = nullptr;
    if (const auto core = core_.lock()) {
      core->CancelRequest(route_, nullptr);
    }
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  void Finished() override {
    const auto core = core_.lock();
    if (core && route_->state != State::kCancelling) {
      core->CloseRequest(route_, false);
    }
  }
  void Cancel(std::function<void(Result<bool>)> done) override {
    if (const auto core = core_.lock()) {
      core->CancelRequest(route_, std::move(done));
    } else if (done) {
      (*post_)([done = std::move(done)] { done(false); });
    }
  }
  void OnClosed(std::function<void()> closed) override { route_->closed = std::move(closed); }
  void KeepPost(std::shared_ptr<const engine::Post> post) { post_ = std::move(post); }

 private:
  const std::weak_ptr<BoundaryCore> core_;
  const std::shared_ptr<RequestRoute> route_;
  std::shared_ptr<const engine::Post> post_;
};

}  // namespace

Result<std::shared_ptr<RequestRoute>> BoundaryCore::Admit(const engine::Request& request,
                                                          std::string client_id) {
  if (Cancelled()) {
    return Fail(Errc::kUnavailable, kNotRunning);
  }
  if (request.output_tokens_max == 0) {
    return Fail(Errc::kMalformed, "live requests must generate at least one output token");
  }
  if (requests_.contains(client_id)) {
    return Fail(Errc::kOverloaded, "request " + client_id + " is already active");
  }
  if (!request_ids_.insert(Value(request.id)).second) {
    return Fail(Errc::kInternal, "internal scheduler request ID collision");
  }
  auto route = std::make_shared<RequestRoute>();
  route->id = request.id;
  route->client_id = std::move(client_id);
  requests_[route->client_id] = route;
  return route;
}

void BoundaryCore::CloseRequest(const std::shared_ptr<RequestRoute>& request, bool tell) {
  if (request->state == State::kClosed) {
    return;
  }
  request->state = State::kClosed;
  request->destination.reset();
  requests_.erase(request->client_id);
  request_ids_.erase(Value(request->id));
  for (auto& waiter : std::exchange(request->cancel_waiters, {})) {
    (*post_)([waiter = std::move(waiter)] { waiter(false); });
  }
  if (tell && request->closed) {
    (*post_)([request] {
      if (const auto closed = std::exchange(request->closed, nullptr)) {
        closed();
      }
    });
  }
}

Result<HandoffOutcome> BoundaryCore::Submitted(const std::shared_ptr<RequestRoute>& request,
                                               const std::shared_ptr<Route>& destination,
                                               Result<HandoffOutcome> reply) {
  if (!reply) {
    CloseRequest(request, true);
    return reply;
  }
  const auto expected = destination ? HandoffOutcome::kAccepted : HandoffOutcome::kSubmitted;
  if (*reply != expected) {
    CloseRequest(request, true);
    return Fail(
        Errc::kInternal,
        "unexpected scheduler submit result for " + request->client_id + ": " + NameOf(*reply));
  }
  if (cancelled_) {
    port_.CancelRequest(request->id, rank_);
    CloseRequest(request, true);
    return Fail(Errc::kUnavailable, "live Mocker engine stopped during submission");
  }
  if (request->state == State::kSubmitting) {
    request->state = State::kActive;
    request->destination = destination;
    if (request->cancel_wanted) {
      BeginCancel(request);
    }
  }
  return reply;
}

void BoundaryCore::CancelRequest(const std::shared_ptr<RequestRoute>& request,
                                 std::function<void(Result<bool>)> done) {
  if (request->state == State::kClosed) {
    if (done) {
      (*post_)([done = std::move(done)] { done(false); });
    }
    return;
  }
  if (done) {
    request->cancel_waiters.push_back(std::move(done));
  }
  request->cancel_wanted = true;
  if (request->state == State::kActive) {
    BeginCancel(request);
  }
}

void BoundaryCore::BeginCancel(const std::shared_ptr<RequestRoute>& request) {
  request->state = State::kCancelling;
  if (!request->destination) {
    port_.CancelRequest(request->id, rank_);
    FinishCancel(request, true);
    return;
  }
  const std::weak_ptr<BoundaryCore> weak = weak_from_this();
  request->destination->lock.Enter([weak, request, route = request->destination] {
    const auto core = weak.lock();
    if (core && request->state == State::kCancelling) {
      core->CancelReservation(request);
    } else {
      route->lock.Release();
    }
  });
}

void BoundaryCore::CancelReservation(const std::shared_ptr<RequestRoute>& request) {
  const auto route = request->destination;
  if (!IsLatest(*route)) {  // the id is somebody else's by now
    FinishCancel(request, false);
    route->lock.Release();
    return;
  }
  const Status sent =
      Send(Command::Kind::kCancelDestination,
           route->id,
           {},
           [this, request, route](Result<HandoffOutcome> reply) {
             Result<bool> result = false;
             if (!reply) {
               result = tl::make_unexpected(reply.error());
             } else if (*reply == HandoffOutcome::kApplied || *reply == HandoffOutcome::kNoop) {
               result = *reply == HandoffOutcome::kApplied;
             } else {
               result = Fail(Errc::kInternal,
                             "unexpected scheduler destination cancellation result for " +
                                 DebugText(route->id) + ": " + NameOf(*reply));
             }
             FinishCancel(request, result);
             route->lock.Release();
           });
  if (!sent) {
    FinishCancel(request, tl::make_unexpected(sent.error()));
    route->lock.Release();
  }
}

void BoundaryCore::FinishCancel(const std::shared_ptr<RequestRoute>& request,
                                const Result<bool>& result) {
  for (auto& waiter : std::exchange(request->cancel_waiters, {})) {
    (*post_)([waiter = std::move(waiter), result] { waiter(result); });
  }
  CloseRequest(request, false);
}

engine::PreparedHandoff MakePrepared(const std::shared_ptr<BoundaryCore>& core,
                                     std::shared_ptr<RequestRoute> route,
                                     engine::Request request) {
  auto life = std::make_unique<Life>(core, route);
  life->KeepPost(core->post());
  return {std::make_shared<Prepared>(core, std::move(route), std::move(request)), std::move(life)};
}

Result<Consumed> Consume(BoundaryCore& core, engine::PreparedRequest* prepared) {
  constexpr const char* kForeign = "prepared request belongs to a different live Mocker engine";
  auto* ours = dynamic_cast<Prepared*>(prepared);
  if (ours == nullptr) {
    return Fail(Errc::kInternal, kForeign);
  }
  if (ours->taken()) {
    return Fail(Errc::kInternal, "prepared request was already consumed");
  }
  if (!ours->Belongs(core)) {
    return Fail(Errc::kInternal, kForeign);
  }
  auto consumed = ours->Take();
  if (!consumed) {
    return Fail(Errc::kUnavailable, "prepared request was already consumed");
  }
  return std::move(*consumed);
}

}  // namespace understudy::mocker::handoff
