// Tells planners what each scheduler pass did, and that idle ranks are alive. Source: events.md 6.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/types.h"
#include "understudy/transport/event_payloads.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace understudy::worker {

/// A message for every pass of every rank, and a zeroed one after kIdle without a pass. On the
/// loop's thread. Losses don't matter: they are counted and said once per episode.
class ForwardPassPublisher {
 public:
  static constexpr Nanoseconds kIdle = std::chrono::seconds(1);

  ForwardPassPublisher(transport::Loop& loop,
                       std::vector<transport::EventPublisher*> publishers,
                       const Clock& clock,
                       Metrics& metrics);

  /// The next RankIndex.
  void AddRank(std::uint64_t worker_id, std::uint32_t dp_rank);
  /// The idle times begin.
  void Start();
  void OnPasses(const std::vector<engine::ForwardPass>& passes);
  void Stop();

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  /// Ranks stand in a list, the one that spoke last at its end: all wait equally long.
  struct Rank {
    std::string worker_id;
    std::uint32_t dp_rank = 0;
    std::uint64_t counter = 0;
    TimePoint spoke{};
    std::uint32_t before = kNone, after = kNone;
  };
  void Spoke(std::uint32_t rank, TimePoint now);
  void Publish(std::uint32_t rank, transport::ForwardPassMetrics metrics, TimePoint now);
  void ArmIdle(TimePoint now);
  void SayIdle();

  std::vector<transport::EventPublisher*> publishers_;
  const Clock& clock_;
  Metrics& metrics_;
  std::unique_ptr<transport::Timer> timer_;
  std::vector<Rank> ranks_;
  std::uint32_t first_ = kNone, last_ = kNone;
  std::string payload_;  ///< scratch
  bool running_ = false, failing_ = false;
};

}  // namespace understudy::worker
