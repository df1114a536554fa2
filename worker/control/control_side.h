// All that lets controllers drive the workers of a process, put together.
#pragma once

#include "understudy/engine/engine.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "worker/control/control_server.h"
#include "worker/control/control_streams.h"
#include "worker/control/handoff_operations.h"
#include "worker/control/output_tap.h"
#include "worker/control/serving_switch.h"
#include "worker/metrics/control_metrics.h"
#include "worker/registration/control_endpoints.h"
#include "worker/request_path/request_path.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// On the loop's thread.
class ControlSide {
 public:
  /// All outlive it.
  struct Parts {
    transport::Loop& loop;
    Ingress& ingress;
    engine::Engine& engine;
    engine::Handoffs* handoffs;  ///< of the engine, whose signals reach it by `path`; may be null
    transport::Discovery& discovery;
    RequestPath& path;
    const WorkerConfig& config;
    const ReleaseProfile& profile;
    const std::vector<WorkerIdentity>& workers;
  };
  /// `on_serving` hears how many workers serve, after a controller has changed that.
  ControlSide(const Parts& parts, std::function<void(std::size_t)> on_serving);
  ControlSide(const ControlSide&) = delete;
  ControlSide& operator=(const ControlSide&) = delete;

  /// What the engine is to be started with, in place of the request path.
  [[nodiscard]] engine::EngineSink& Sink() { return tap_; }
  [[nodiscard]] std::vector<std::string> Subjects() const;
  /// Puts the instance records of its endpoints in front of the workers' own.
  void AddRecords(Registration& registration);
  /// Those that AddRecords saw are in the store.
  void Registered() { serving_.Registered(std::move(instances_)); }
  /// The process ends: workers are neither drained nor resumed, nothing new begins.
  void Stopping();
  [[nodiscard]] std::string Scrape() { return metrics_->Scrape(); }

 private:
  const std::size_t worker_count_;
  std::unique_ptr<ControlMetrics> metrics_ = ControlMetrics::New();
  std::vector<ControlEndpoint> endpoints_;
  std::vector<transport::Record> instances_;  ///< of the workers, until Registered
  ControlStreams streams_;
  ServingSwitch serving_;
  OutputTap tap_;
  std::unique_ptr<LiveHandoffOperations> handoffs_;
  ControlServer server_;
};

}  // namespace understudy::worker
