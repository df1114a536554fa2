// What both ends of hand-offs share in a worker: a request's part, and who hears of its end.
#pragma once

#include "understudy/engine/handoff.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/session.h"
#include "worker/metrics/handoff_metrics.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace understudy::worker {

/// One request that takes part in a hand-off.
struct HandoffPart {
  RequestId request{};
  std::uint32_t worker = 0;
  std::string context_id;
  transport::BootstrapIdentity identity;
  std::unique_ptr<engine::LiveRequest> life;
  TimePoint begun{};
};

/// `ended`: what a request's own stream has to say; never for a request that was cancelled or has
/// all its tokens. From the loop, not from inside a call.
struct HandoffOwner {
  HandoffMetrics& metrics;
  std::function<void(RequestId, const Status&)> ended;
};

/// For people.
struct HandoffSummary {
  std::string context_id;
  std::string handoff_id;
  std::uint32_t worker = 0;
  const char* state = "";
  double age_s = 0;
};

[[nodiscard]] HandoffSummary Summarize(const HandoffPart& part, const char* state, TimePoint now);

/// Counts and logs the end of a part.
void PartOver(const HandoffPart& part,
              const SessionPlace& place,
              HandoffMetrics& metrics,
              const Status& status,
              bool cancelled);

}  // namespace understudy::worker
