// Prometheus families of the control endpoints. On the loop's thread.
#pragma once

#include "understudy/transport/worker_control.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace understudy::worker {

/// Why a controller was turned away; label `reason`.
enum class ControlRefusal : std::uint8_t {
  kInvalid,     ///< the request breaks the schema, or names what is not there
  kOverloaded,  ///< a bound
  kUnservable,  ///< the worker or the engine could not
};

class ControlMetrics {
 public:
  [[nodiscard]] static std::unique_ptr<ControlMetrics> New();
  virtual ~ControlMetrics() = default;

  virtual void Requested(transport::ControlOp op) = 0;
  virtual void Refused(ControlRefusal reason) = 0;
  virtual void OpenStreams(std::size_t open) = 0;
  virtual void BlocksCleared(std::uint64_t count) = 0;
  virtual void Drained(std::size_t workers) = 0;
  /// Registrations of hand-offs that stand.
  virtual void Registrations(std::size_t count) = 0;

  /// Prometheus text format.
  [[nodiscard]] virtual std::string Scrape() = 0;
};

}  // namespace understudy::worker
