// Metrics of hand-offs between prefill and decode workers; only their workers have them. On the
// loop's thread.
#pragma once

#include "understudy/transport/bootstrap.h"
#include "worker/handoff/source_manager.h"

#include <cstdint>
#include <memory>
#include <string>

namespace understudy::worker {

/// Label `result`.
enum class HandoffResult : std::uint8_t { kCompleted, kFailed, kCancelled };

class HandoffMetrics {
 public:
  /// `end`: source or destination, a label of everything.
  [[nodiscard]] static std::unique_ptr<HandoffMetrics> New(const std::string& end);
  virtual ~HandoffMetrics() = default;

  virtual void Begun() = 0;
  /// `seconds` since Begun.
  virtual void Over(HandoffResult result, double seconds) = 0;

  /// What is counted elsewhere, over the workers of the process, before each Scrape.
  struct Totals {
    std::uint64_t refused = 0;  ///< no session permit
    std::uint64_t pending = 0;  ///< sources and destinations that wait for their partner
    SourceManagerCounts sources{};
    transport::BootstrapListenerCounts connections{};
  };
  /// Prometheus text format.
  [[nodiscard]] virtual std::string Scrape(const Totals& totals) = 0;
};

}  // namespace understudy::worker
