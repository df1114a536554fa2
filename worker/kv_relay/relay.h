// The KV events of all ranks of the process, from the engine to the event plane.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/types.h"
#include "understudy/transport/event_plane.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/router_event.h"
#include "worker/kv_relay/publisher.h"
#include "worker/metrics/metrics.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// Where the events of one rank go, in one release's form.
struct KvOutput {
  transport::EventPublisher* publisher = nullptr;
  transport::RouterEventForm form;
  bool json = false;  ///< JetStream: one event as JSON
};

/// All members on the loop's thread. What one call says about a rank is a unit: it leaves at once,
/// in as few messages as the release's form allows.
class KvRelay {
 public:
  /// Of one message with several events; a single larger event goes alone. Source: events.md 3.
  static constexpr std::size_t kEventsPerMessage = 128;
  static constexpr std::size_t kBlocksPerMessage = 8192;

  struct Options {
    BatchingOptions batching;
    bool answers_queries = true;
  };
  KvRelay(transport::Loop& loop,
          const transport::EventPlane& plane,
          const Clock& clock,
          Metrics& metrics,
          const Options& options);

  /// The next RankIndex.
  void AddRank(WorkerId worker_id, DpRank dp_rank, std::vector<KvOutput> outputs);

  /// From the engine inside this process.
  void Take(std::vector<engine::KvEvent> events);
  /// From an engine's own socket; the events' ids are the engine's running numbers.
  void TakeUnit(RankIndex rank, std::vector<transport::RouterEvent> unit);

  /// After a reconnect: says the newest event of each rank again. A router that missed some sees
  /// the gap and asks; to the others it is old.
  void SayNewestAgain();
  /// Sends what is pending; nothing is sent afterwards.
  void Stop();

  struct Rank {
    RankPublisher publisher;
    WorkerId worker_id;
    DpRank dp_rank;
    std::vector<KvOutput> outputs;
    std::vector<transport::RouterEvent> unit;  ///< scratch of Take
    std::uint64_t lost = 0;                    ///< counted so far
  };
  [[nodiscard]] Rank& rank(RankIndex index) { return *ranks_[Value(index)]; }
  [[nodiscard]] std::size_t rank_count() const { return ranks_.size(); }
  /// Stored blocks that routers cannot place.
  [[nodiscard]] std::uint64_t doubtful() const;

 private:
  /// Events that wait for the end of the unit, in one form.
  struct Group {
    std::string maps;
    std::size_t events = 0, blocks = 0;
  };
  void Encode(Rank& rank, const transport::RouterEvent& event);
  void FlushGroup(Rank& rank, std::size_t output);
  void Send(const KvOutput& output, std::string_view payload);
  void EndUnit(Rank& rank);
  void ArmBatching(TimePoint due, TimePoint now);
  void FlushBatches();
  [[nodiscard]] std::size_t EventBytesMax() const;

  const transport::EventPlane& plane_;
  const Clock& clock_;
  Metrics& metrics_;
  Options options_;
  std::unique_ptr<transport::Timer> timer_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::uint32_t> touched_;
  std::vector<Group> groups_;  ///< by output; empty between units
  std::string payload_;        ///< scratch
  std::optional<TimePoint> armed_for_;
  bool stopped_ = false, failing_ = false;
};

}  // namespace understudy::worker
