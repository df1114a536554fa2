// The hand-offs of a process's workers, as its requests see them.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff.h"
#include "understudy/mocker/mocker_options.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/loop.h"
#include "worker/handoff/destinations.h"
#include "worker/handoff/session_permits.h"
#include "worker/handoff/sources.h"
#include "worker/metrics/handoff_metrics.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// A request that names a hand-off and may take part in it.
struct HandoffAsk {
  std::uint32_t worker = 0, dp_rank = 0;
  std::string context_id;
  transport::BootstrapInfo bootstrap;  ///< handoff_id is set
  engine::Request request;
};

/// Prefill or decode workers; aggregated ones have none. All members on the loop's thread.
class HandoffSide {
 public:
  struct Options {
    mocker::WorkerType role = mocker::WorkerType::kPrefill;
    mocker::EngineType engine_type = mocker::EngineType::kVllm;
    std::uint32_t workers = 1, dp_size = 1;
    std::uint64_t sessions_max = 1;  ///< of a rank
    Nanoseconds session_timeout = std::chrono::seconds(300);
    std::vector<std::uint16_t> ports;  ///< of prefill workers, one each; or none
    engine::TransferTiming timing;     ///< of prompts handed over without a rendezvous
  };
  HandoffSide(transport::Loop& loop,
              const Clock& clock,
              engine::Handoffs& engine,
              const Options& options);
  ~HandoffSide();
  HandoffSide(const HandoffSide&) = delete;
  HandoffSide& operator=(const HandoffSide&) = delete;

  /// Who hears that a request's stream has no more to wait for (ok), or why it ends: from the loop,
  /// never for a request that was cancelled. Before Begin.
  void OnEnded(std::function<void(RequestId, const Status&)> ended) { ended_ = std::move(ended); }

  /// Opens the bootstrap ports; participants wait until Serve. kUnavailable names port and reason.
  [[nodiscard]] Status Listen() { return sources_.Listen(options_.ports); }
  void Serve() { sources_.Serve(); }
  [[nodiscard]] std::vector<std::uint16_t> ports() const { return sources_.ports(); }

  /// Takes the request in place of Engine::Submit. Errors with the reference's texts; kOverloaded:
  /// the rank has as many hand-offs open as it may; kMalformed, kUnsupported: the request's fault.
  [[nodiscard]] Status Begin(HandoffAsk ask);
  /// The engine gave the last token of a request (`handed_over`: one of Begin). True: its stream
  /// ends later, which is told.
  [[nodiscard]] bool LastToken(RequestId id, bool handed_over, std::uint32_t prompt_tokens);
  /// Its client is gone, or the engine gave it up. Nothing is told any more.
  void Cancel(RequestId id);

  /// Sessions end, both sides of each are cleaned up, ports close, the engine takes no command any
  /// more; then `closed`. Not bounded in time: the caller is.
  void Shutdown(std::function<void()> closed);
  [[nodiscard]] bool shut_down() const { return shut_down_; }

  /// Prometheus text format.
  [[nodiscard]] std::string Scrape();
  /// For people, as JSON.
  [[nodiscard]] std::string DumpState() const;

 private:
  using Part = Result<HandoffPart>;
  [[nodiscard]] Status BeginSource(HandoffAsk ask, SessionPermit permit);
  [[nodiscard]] Status BeginDestination(HandoffAsk ask, SessionPermit permit);
  [[nodiscard]] Part Prepare(HandoffAsk& ask, HandoffRequest& handoff);
  [[nodiscard]] bool Delay(RequestId id, std::uint32_t prompt_tokens);
  void Ended(RequestId id, const Status& status);

  transport::Loop& loop_;
  const Options options_;
  const SessionPlace place_;
  engine::Handoffs& engine_;
  std::unique_ptr<HandoffMetrics> metrics_;
  std::function<void(RequestId, const Status&)> ended_;
  std::vector<SessionPermits> permits_;  ///< of each worker
  Sources sources_;
  Destinations destinations_;
  /// Of requests without a rendezvous, whose last word is held back.
  std::unordered_map<RequestId, std::unique_ptr<transport::Timer>> delays_;
  bool shut_down_ = false;
};

}  // namespace understudy::worker
