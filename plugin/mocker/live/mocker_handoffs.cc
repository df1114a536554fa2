#include "plugin/mocker/live/mocker_handoffs.h"

#include <utility>

namespace understudy::mocker {

MockerHandoffs::MockerHandoffs(std::uint32_t rank_count,
                               engine::TransferTiming timing,
                               handoff::CommandPort& port,
                               engine::Post post)
    : timing_(timing), port_(port), post_(std::move(post)), boundaries_(rank_count) {}

MockerHandoffs::~MockerHandoffs() {
  TellWaiters();  // the ranks that were not through end here
}

Result<handoff::LiveBoundary*> MockerHandoffs::BoundaryOf(RankIndex rank) {
  if (Value(rank) >= boundaries_.size()) {
    return Fail(Errc::kMalformed,
                "rank " + std::to_string(Value(rank)) + " is out of bounds for " +
                    std::to_string(boundaries_.size()) + " ranks");
  }
  if (shutting_down_) {
    return Fail(Errc::kUnavailable, "live Mocker engine is not running");
  }
  auto& boundary = boundaries_[Value(rank)];
  if (!boundary) {
    boundary = std::make_unique<handoff::LiveBoundary>(rank, timing_, port_, post_);
  }
  return boundary.get();
}

Result<engine::HandoffRegistration> MockerHandoffs::Register(engine::HandoffId id, RankIndex rank) {
  UNDERSTUDY_TRY(handoff::LiveBoundary * boundary, BoundaryOf(rank));
  return boundary->Register(id);
}

Result<engine::PreparedHandoff> MockerHandoffs::Prepare(engine::Request request,
                                                        std::string client_id) {
  UNDERSTUDY_TRY(handoff::LiveBoundary * boundary, BoundaryOf(request.rank));
  return boundary->Prepare(std::move(request), std::move(client_id));
}

void MockerHandoffs::OnSignal(engine::HandoffSignal signal) {
  if (Value(signal.rank) < boundaries_.size() && boundaries_[Value(signal.rank)]) {
    boundaries_[Value(signal.rank)]->OnSignal(signal);
  }
}

void MockerHandoffs::Shutdown(std::function<void(Status)> done) {
  waiters_.push_back(std::move(done));
  if (!std::exchange(shutting_down_, true)) {
    closing_ = 1;  // this call, until all are asked
    for (const auto& boundary : boundaries_) {
      if (boundary) {
        ++closing_;
        boundary->Shutdown([weak = weak_from_this()](const Status& result) {
          if (const auto self = weak.lock()) {
            self->BoundaryClosed(result);
          }
        });
      }
    }
    BoundaryClosed({});
  } else if (closing_ == 0) {
    ++closing_;
    BoundaryClosed({});
  }
}

void MockerHandoffs::BoundaryClosed(const Status& result) {
  if (result_ && !result) {
    result_ = result;
  }
  if (--closing_ == 0) {
    TellWaiters();
  }
}

void MockerHandoffs::TellWaiters() {
  for (auto& done : std::exchange(waiters_, {})) {
    post_([done = std::move(done), result_now = result_] { done(result_now); });
  }
}

void MockerHandoffs::EngineStopped() {
  post_([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      for (const auto& boundary : self->boundaries_) {
        if (boundary) {
          boundary->LaneClosed(true);
        }
      }
    }
  });
}

}  // namespace understudy::mocker
