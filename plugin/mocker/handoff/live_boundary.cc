#include "plugin/mocker/handoff/live_boundary.h"

#include "plugin/mocker/handoff/boundary_core.h"
#include "understudy/base/assert.h"

#include <utility>

namespace understudy::mocker::handoff {

namespace {

class Events final : public engine::HandoffEvents {
 public:
  explicit Events(std::shared_ptr<Route> route) : route_(std::move(route)) {}
  ~Events() override {
    EventChannel& channel = *route_->channel;
    channel.heard = false;
    channel.open = false;
    channel.next = nullptr;
    channel.waiting.clear();
    if (const auto core = route_->core.lock()) {
      core->Unregister(*route_);
    }
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void Receive(std::function<void(std::optional<engine::HandoffEvent>)> next) override {
    EventChannel& channel = *route_->channel;
    UNDERSTUDY_ASSERT(!channel.next);
    channel.next = std::move(next);
    if (!channel.waiting.empty()) {
      const engine::HandoffEvent event = channel.waiting.front();
      channel.waiting.pop_front();
      route_->Offer(event);
      if (const auto core = route_->core.lock()) {
        core->Pump();  // there is room again
      }
    } else if (!channel.open) {
      route_->Offer(std::nullopt);
    }
  }

 private:
  std::shared_ptr<Route> route_;
};

}  // namespace

LiveBoundary::LiveBoundary(RankIndex rank,
                           engine::TransferTiming timing,
                           CommandPort& port,
                           engine::Post post)
    : core_(std::make_shared<BoundaryCore>(rank, timing, port, std::move(post))) {}

LiveBoundary::~LiveBoundary() {
  core_->LaneClosed(true);
}

Result<engine::HandoffRegistration> LiveBoundary::Register(engine::HandoffId id) {
  UNDERSTUDY_TRY(auto route, core_->Register(id));
  return engine::HandoffRegistration{MakeControl(route), std::make_unique<Events>(route)};
}

Result<engine::PreparedHandoff> LiveBoundary::Prepare(engine::Request request,
                                                      std::string client_id) {
  UNDERSTUDY_TRY(auto route, core_->Admit(request, std::move(client_id)));
  return MakePrepared(core_, std::move(route), std::move(request));
}

void LiveBoundary::OnSignal(const engine::HandoffSignal& signal) {
  core_->OnSignal(signal);
}

void LiveBoundary::Shutdown(std::function<void(Status)> done) {
  core_->Shutdown(std::move(done));
}

void LiveBoundary::LaneClosed(bool expected) {
  core_->LaneClosed(expected);
}

BoundaryCounts LiveBoundary::counts() const {
  return core_->counts();
}

BoundarySizes LiveBoundary::sizes() const {
  return core_->sizes();
}

}  // namespace understudy::mocker::handoff
