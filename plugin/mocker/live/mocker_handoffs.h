// The hand-offs of all ranks of a simulated engine.
#pragma once

#include "plugin/mocker/handoff/live_boundary.h"
#include "understudy/engine/handoff.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::mocker {

/// All members on one thread. A rank that has no hand-offs costs a pointer.
class MockerHandoffs final : public engine::Handoffs,
                             public std::enable_shared_from_this<MockerHandoffs> {
 public:
  MockerHandoffs(std::uint32_t rank_count,
                 engine::TransferTiming timing,
                 handoff::CommandPort& port,
                 engine::Post post);
  ~MockerHandoffs() override;
  MockerHandoffs(const MockerHandoffs&) = delete;
  MockerHandoffs& operator=(const MockerHandoffs&) = delete;

  [[nodiscard]] Result<engine::HandoffRegistration> Register(engine::HandoffId id,
                                                             RankIndex rank) override;
  [[nodiscard]] Result<engine::PreparedHandoff> Prepare(engine::Request request,
                                                        std::string client_id) override;
  void OnSignal(engine::HandoffSignal signal) override;
  void Shutdown(std::function<void(Status)> done) override;

  /// Any thread: the ranks have ended. What they said before is still dealt with.
  void EngineStopped();

 private:
  [[nodiscard]] Result<handoff::LiveBoundary*> BoundaryOf(RankIndex rank);
  void BoundaryClosed(const Status& result);
  void TellWaiters();

  const engine::TransferTiming timing_;
  handoff::CommandPort& port_;
  const engine::Post post_;
  std::vector<std::unique_ptr<handoff::LiveBoundary>> boundaries_;  ///< by rank
  bool shutting_down_ = false;
  std::size_t closing_ = 0;  ///< ranks whose shutdown is under way
  Status result_;            ///< of those that are through, the first error
  std::vector<std::function<void(Status)>> waiters_;
};

}  // namespace understudy::mocker
