// Publishes each rank's KV use for the router: on change, debounced, a slot per rank. Source:
// events.md 5.
#pragma once

#include "understudy/engine/types.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace understudy::worker {

/// On the loop's thread.
class LoadPublisher {
 public:
  static constexpr Nanoseconds kDebounce = std::chrono::milliseconds(1);

  /// Every message goes to each of `publishers`.
  LoadPublisher(transport::Loop& loop,
                std::vector<transport::EventPublisher*> publishers,
                Metrics& metrics);

  /// Declares the ranks of one worker; `first` is the RankIndex of its dp rank 0. `probe` gets the
  /// worker's sums.
  void AddWorker(std::uint64_t worker_id,
                 std::uint32_t first,
                 std::uint32_t dp_size,
                 EndpointProbe* probe);
  void OnLoad(const engine::Load& load);
  /// Says every known value of the worker that owns `rank` again at once: after a refusal, and when
  /// room is back.
  void SayAgain(RankIndex rank);
  /// The same for all ranks: after a reconnect.
  void SayAllAgain();
  /// Sends what is held back now; nothing is sent afterwards.
  void Stop();

  [[nodiscard]] const std::vector<engine::Load>& loads() const { return loads_; }

 private:
  struct Rank {
    std::uint64_t worker_id = 0;
    std::uint32_t dp_rank = 0;
    std::uint32_t worker = 0;
    std::optional<std::uint64_t> said;  // last published value
    bool pending = false;
  };
  struct Worker {
    std::uint32_t first = 0, dp_size = 0;
    EndpointProbe* probe = nullptr;
    engine::Load sum;  // over its ranks
  };
  void Mark(std::uint32_t rank);
  void Send();
  void SendRank(std::uint32_t rank);

  std::vector<transport::EventPublisher*> publishers_;
  Metrics& metrics_;
  std::unique_ptr<transport::Timer> timer_;
  std::vector<Rank> ranks_;
  std::vector<engine::Load> loads_;  // latest of each rank
  std::vector<Worker> workers_;
  std::vector<std::uint32_t> pending_;
  bool armed_ = false, stopped_ = false, failing_ = false;
};

}  // namespace understudy::worker
