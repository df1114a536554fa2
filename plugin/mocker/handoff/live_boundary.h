// Control of the hand-offs of one rank while it runs: who may command which attempt, and who hears
// of it.
#pragma once

#include "plugin/mocker/handoff/command.h"
#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace understudy::mocker::handoff {

class BoundaryCore;

/// Events that wait for a consumer who does not read; beyond it his registration is closed.
inline constexpr std::size_t kLaneEventsMax = 65536;

struct BoundaryCounts {
  std::uint64_t registered_total = 0;
  std::uint64_t commands_total = 0;
  std::uint64_t events_total = 0;          ///< that reached a registration
  std::uint64_t events_dropped_total = 0;  ///< nobody was registered
  std::uint64_t calls_refused_total = 0;   ///< beyond HandoffControl::kCallsWaitingMax
  std::uint64_t lane_closed_total = 0;     ///< registrations closed at kLaneEventsMax
};

/// What the boundary holds, for people and tests.
struct BoundarySizes {
  std::size_t registered = 0;      ///< ids with a registration
  std::size_t remembered = 0;      ///< ids whose latest registration somebody still holds
  std::size_t requests = 0;        ///< prepared or admitted, not over
  std::size_t commands = 0;        ///< sent and not answered
  std::size_t events_waiting = 0;  ///< in front of a full registration
};

/// All members on one thread, the one that `post` reaches. Destroying it while others hold controls
/// is fine: they say that the engine is gone. Source: dynamo-mocker live/handoff.rs (mission.md B).
class LiveBoundary {
 public:
  /// `timing`: of every hand-off whose source is here; the prompt's length is filled in. `port` and
  /// what `post` needs outlive this.
  LiveBoundary(RankIndex rank, engine::TransferTiming timing, CommandPort& port, engine::Post post);
  ~LiveBoundary();
  LiveBoundary(const LiveBoundary&) = delete;
  LiveBoundary& operator=(const LiveBoundary&) = delete;

  [[nodiscard]] Result<engine::HandoffRegistration> Register(engine::HandoffId id);
  [[nodiscard]] Result<engine::PreparedHandoff> Prepare(engine::Request request,
                                                        std::string client_id);
  void OnSignal(const engine::HandoffSignal& signal);

  /// As engine::Handoffs::Shutdown.
  void Shutdown(std::function<void(Status)> done);
  /// No command will be answered any more, no event will come. Not `expected`: an error that
  /// Shutdown tells.
  void LaneClosed(bool expected);

  [[nodiscard]] BoundaryCounts counts() const;
  [[nodiscard]] BoundarySizes sizes() const;

 private:
  std::shared_ptr<BoundaryCore> core_;
};

}  // namespace understudy::mocker::handoff
