// What both kinds of hand-off sessions need.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/handoff.h"
#include "understudy/transport/bootstrap.h"
#include "understudy/transport/loop.h"
#include "worker/handoff/session_permits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace understudy::worker {

/// For a partner that does not come, and for the first word of the other side.
inline constexpr Nanoseconds kRendezvousTimeout = std::chrono::seconds(30);
/// A modelled transfer is never waited for longer, whatever it is said to take: a day.
inline constexpr double kTransferDelayMsMax = 24.0 * 3600.0 * 1000.0;
/// A destination rounds a prompt up to its blocks; one that says more than this beyond it lies.
inline constexpr std::uint64_t kBlockTokensMax = 65536;

/// Where sessions run.
struct SessionPlace {
  transport::Loop& loop;
  const Clock& clock;
  Nanoseconds session_timeout = std::chrono::seconds(300);

  /// For taking back what the engine may hold.
  [[nodiscard]] Nanoseconds cleanup_timeout() const {
    return std::max(session_timeout, kRendezvousTimeout);
  }
};

/// An engine's side of one hand-off of one request.
struct HandoffRequest {
  std::shared_ptr<engine::PreparedRequest> request;
  engine::HandoffRegistration registration;
  SessionPermit permit;
};

[[nodiscard]] inline Nanoseconds DelayOf(double delay_ms) {
  return Nanoseconds(
      static_cast<std::int64_t>(std::clamp(delay_ms, 0.0, kTransferDelayMsMax) * 1e6));
}

/// A deadline that moves, on a timer of the loop. After Cancel nothing fires.
class Deadline {
 public:
  explicit Deadline(const SessionPlace& place)
      : clock_(place.clock), timer_(place.loop.NewTimer()) {}

  template <class F>
  void At(TimePoint when, F expired) {
    timer_->After(std::max(Nanoseconds(0), when - clock_.Now()), Task(std::move(expired)));
  }
  void Cancel() { timer_->Cancel(); }

 private:
  const Clock& clock_;
  std::unique_ptr<transport::Timer> timer_;
};

}  // namespace understudy::worker
