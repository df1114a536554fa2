// The operations of hand-offs that controllers ask for, on the engine's live boundary.
#pragma once

#include "understudy/engine/handoff.h"
#include "worker/control/control_server.h"
#include "worker/control/control_streams.h"
#include "worker/control/output_tap.h"
#include "worker/control/registrations.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// On the loop's thread, that of the engine's hand-offs.
class LiveHandoffOperations final : public HandoffOperations {
 public:
  LiveHandoffOperations(transport::Loop& loop,
                        engine::Handoffs& handoffs,
                        OutputTap& tap,
                        ControlStreams& streams,
                        ControlMetrics& metrics,
                        Nanoseconds orphan_wait = Registrations::kOrphanWait);
  LiveHandoffOperations(const LiveHandoffOperations&) = delete;
  LiveHandoffOperations& operator=(const LiveHandoffOperations&) = delete;

  void Serve(ControlStreams::Id stream, RankIndex rank, transport::ControlCommand command) override;
  [[nodiscard]] std::size_t RegisteredAt(RankIndex rank) const override {
    return registrations_.RegisteredAt(rank);
  }
  void OnOutputs(const std::vector<ControlOutput>& outputs);

 private:
  using Id = ControlStreams::Id;
  /// A request that a controller brought; its stream shows the outputs.
  struct Brought {
    Id stream = 0;
    Registrations::Key handoff;
    std::unique_ptr<engine::LiveRequest> life;
    std::unique_ptr<engine::HandoffCall> call;  ///< its submission, until answered
    std::vector<ControlOutput> early;           ///< what came before the answer
  };
  void Bring(Id stream,
             const Registrations::Key& key,
             engine::HandoffControl& control,
             transport::ControlCommand command);
  void Submitted(RequestId id, const Result<engine::HandoffOutcome>& outcome);
  void Command(Id stream, engine::HandoffControl& control, transport::ControlOp op);
  /// False: it was the last one.
  bool ApplyOutput(RequestId id, const ControlOutput& one);
  void End(RequestId id);
  [[nodiscard]] bool Busy(const Registrations::Key& key) const;

  engine::Handoffs& handoffs_;
  OutputTap& tap_;
  ControlStreams& streams_;
  std::unordered_map<RequestId, Brought> brought_;  ///< bounded by the open streams
  std::unordered_map<Id, std::unique_ptr<engine::HandoffCall>> calls_;  ///< of the others
  std::uint64_t named_ = 0;
  Registrations registrations_;
};

}  // namespace understudy::worker
