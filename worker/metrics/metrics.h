// Prometheus families of the process. Names that Dynamo's dashboards read are kept letter for
// letter (wire.md 9); our own are understudy_<noun>_<unit>. On the loop's thread, except where a
// member says otherwise.
#pragma once

#include "understudy/engine/types.h"

#include <cstdint>
#include <memory>
#include <string>

namespace understudy::worker {

/// Values of label error_type. Source: dynamo-runtime 1.3.0 metrics (wire.md 9).
enum class ErrorType : std::uint8_t {
  kDeserialization,
  kInvalidMessage,
  kResponseStream,
  kGenerate,
  kPublishResponse,
  kPublishFinal,
};

/// Why a request was turned away; label `reason`.
enum class RefusalReason : std::uint8_t {
  kInvalid,
  kTooLarge,
  kOverloaded,
  kDuplicate,
  kUnservable
};

/// What a recovery query was answered with; label `answer`.
enum class KvAnswer : std::uint8_t { kEvents, kTreeDump, kTooNew, kInvalidRange, kError };

/// Counts for one endpoint of one worker.
class EndpointProbe {
 public:
  virtual ~EndpointProbe() = default;
  virtual void RequestArrived(std::uint64_t bytes) = 0;
  virtual void StreamOpened() = 0;
  virtual void StreamClosed(double seconds, std::uint64_t response_bytes) = 0;
  virtual void Cancelled() = 0;
  virtual void Failed(ErrorType type) = 0;
  virtual void Refused(RefusalReason reason) = 0;
  virtual void TokensSent(std::uint64_t count) = 0;
  /// Sums over the worker's ranks.
  virtual void Load(const engine::Load& sum) = 0;
};

class Metrics {
 public:
  [[nodiscard]] static std::unique_ptr<Metrics> New();
  virtual ~Metrics() = default;

  /// `worker_id` in lower-case hex. The probe lives as long as the registry.
  virtual EndpointProbe& AddEndpoint(const std::string& ns,
                                     const std::string& component,
                                     const std::string& endpoint,
                                     const std::string& worker_id) = 0;
  virtual void NetworkTransit(double seconds) = 0;
  virtual void TimeToFirstResponse(double seconds) = 0;
  virtual void BadFrame() = 0;     ///< a request without a usable envelope
  virtual void NatsDropped() = 0;  ///< a link to NATS was lost
  virtual void NatsMessagesDropped(std::uint64_t total) = 0;
  virtual void LeaseLost() = 0;
  virtual void Registered(bool registered) = 0;
  virtual void LoadPublished(bool ok) = 0;
  virtual void ForwardPassPublished(bool ok) = 0;
  virtual void PrefillCompletionDropped() = 0;
  virtual void KvEventsPublished(std::uint64_t events) = 0;
  virtual void KvMessageNotSent() = 0;                 ///< of one release's form
  virtual void KvEventsLost(std::uint64_t count) = 0;  ///< between the engine and the publisher
  virtual void KvEventsDoubtful(std::uint64_t total) = 0;
  virtual void KvQueryAnswered(KvAnswer answer) = 0;
  virtual void OpenStreams(std::uint64_t open, std::uint64_t running) = 0;
  virtual void Rejected() = 0;  ///< a request was refused for lack of room
  /// A request named a planned answer that is not there: no trace at all, or not its key.
  virtual void ReplayMissed(bool no_trace) = 0;

  /// Prometheus text format; `uptime_s` since start.
  [[nodiscard]] virtual std::string Scrape(double uptime_s) = 0;
};

}  // namespace understudy::worker
