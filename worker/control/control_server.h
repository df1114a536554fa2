// Serves the endpoints `control` and `clear_kv_blocks` of the workers of a process. Schema:
// transport/README.md.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/engine.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/worker_control.h"
#include "worker/control/control_streams.h"
#include "worker/control/serving_switch.h"
#include "worker/metrics/control_metrics.h"
#include "worker/request_path/ingress.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// Operations of hand-offs, for workers that have them.
class HandoffOperations {
 public:
  virtual ~HandoffOperations() = default;
  /// `command` is one of the seven; answers on `stream` or refuses it. `rank` exists.
  virtual void Serve(ControlStreams::Id stream,
                     RankIndex rank,
                     transport::ControlCommand command) = 0;
  /// Registrations of controllers at a rank.
  [[nodiscard]] virtual std::size_t RegisteredAt(RankIndex rank) const = 0;
};

/// On the loop's thread.
class ControlServer final : public Endpoint {
 public:
  /// How often a `drain` that waits looks whether the last request has ended.
  static constexpr Nanoseconds kDrainPoll = std::chrono::milliseconds(20);

  struct Options {
    std::uint32_t dp_size = 1;
    transport::DecodeLimits limits;
    /// What `clear_kv_blocks` says while blocks are in use, as the real engines' workers do.
    std::string clear_refusal = "KV cache reset failed";
    /// Requests of `generate` that run in a worker.
    std::function<std::size_t(std::uint32_t worker)> running;
  };
  /// `handoffs` may be null.
  ControlServer(transport::Loop& loop,
                Ingress& ingress,
                engine::Engine& engine,
                ControlStreams& streams,
                ServingSwitch& serving,
                HandoffOperations* handoffs,
                ControlMetrics& metrics,
                Options options);
  ~ControlServer() override { *alive_ = false; }
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  enum class Kind : std::uint8_t { kControl, kClearKvBlocks };
  /// Requests to `subject` are about worker number `worker`.
  void Add(const std::string& subject, Kind kind, std::uint32_t worker);
  void Serve(const IncomingRequest& request) override;
  /// The process ends: what would keep it is refused.
  void Stopping() { stopping_ = true; }

 private:
  using Id = ControlStreams::Id;
  struct Target {
    Kind kind = Kind::kControl;
    std::uint32_t worker = 0;
  };
  struct StatsStream;
  struct DrainWaiter {
    Id stream = 0;
    std::uint32_t worker = 0;
  };

  void Run(Id stream, std::uint32_t worker, transport::ControlCommand command);
  [[nodiscard]] Status Check(Id stream, const transport::ControlCommand& command);
  void ServeStats(Id stream, std::uint32_t worker, const transport::ControlCommand& command);
  void ReadStats(const std::shared_ptr<StatsStream>& stats);
  void SendStats(const std::shared_ptr<StatsStream>& stats,
                 const std::vector<engine::RankStatus>& ranks);
  void ServeClear(Id stream, std::uint32_t worker, const transport::ControlCommand& command);
  void ServePlainClear(Id stream, std::uint32_t worker);
  void ServeSwitch(Id stream, std::uint32_t worker, const transport::ControlCommand& command);
  void AwaitDrained(Id stream, std::uint32_t worker);
  void PollDrained();
  [[nodiscard]] transport::ControlItem StateOf(std::uint32_t worker) const;
  [[nodiscard]] RankIndex FirstRank(std::uint32_t worker,
                                    const transport::ControlCommand& command) const;
  [[nodiscard]] std::uint32_t RankCount(const transport::ControlCommand& command) const {
    return command.rank ? 1 : options_.dp_size;
  }
  void ClearRanks(RankIndex first,
                  std::uint32_t count,
                  engine::InUse in_use,
                  std::function<void(const std::vector<engine::CacheCleared>&)> done);

  transport::Loop& loop_;
  Ingress& ingress_;
  engine::Engine& engine_;
  ControlStreams& streams_;
  ServingSwitch& serving_;
  HandoffOperations* handoffs_;
  ControlMetrics& metrics_;
  Options options_;
  std::vector<Target> targets_;
  std::vector<DrainWaiter> waiters_;
  std::unique_ptr<transport::Timer> drain_poll_;
  bool stopping_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< read by posts
};

}  // namespace understudy::worker
